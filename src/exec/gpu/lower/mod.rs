//! From operations to dispatches: parameters, buffers and, from the table in `forms`, kernels.
//!
//! Lowering is pure: it names buffers and counts workgroups, and touches no device.

mod attention;
mod experts;
mod fuse;
mod fused_product;
mod linear;
mod short_conv;

use super::{
    dispatch::{Alternative, Class, Dispatch, Operation, Overrides, Slot, rows_at, stride},
    forms::{self, Adapter},
    kernels,
    params::{EmbedParams, NormParams, Params, SelectRowsParams},
    placement::{Part, Place, Placed},
};
use crate::{
    error::{Error, Result},
    ops::{BufferId, CacheSpec, Embed, Lookup, Norm, Op, Rows, SelectRows, WeightId},
    tape::{StepLayout, Tape},
    tensor::{DType, WeightSpec},
};

/// Everything that lowering looks up.
pub(super) struct Lowering<'a> {
    pub tape: &'a Tape,
    pub layout: StepLayout,
    pub specs: &'a [WeightSpec],
    pub placed: &'a [Placed],
    pub cache: CacheSpec,
    pub adapter: Adapter,
}

impl Lowering<'_> {
    fn op(&self, op: &Op) -> Result<Operation> {
        match op {
            Op::Embed(op) => Ok(self.embed(op)),
            Op::Norm(op) => self.norm(op),
            Op::MatMul(op) => self.matmul(op),
            Op::GatedMatMul(op) => self.gated_matmul(op),
            Op::Route(op) => self.route(op),
            Op::Experts(op) => self.experts(op),
            Op::RotaryStore(op) => self.rotary_store(op),
            Op::Attention(op) => self.attention(op),
            Op::ShortConv(op) => self.short_conv(op),
            Op::SelectRows(op) => self.select_rows(op),
        }
    }

    /// Bytes that the operations need between their own dispatches.
    pub fn scratch_bytes(&self) -> u64 {
        let ops = self.tape.ops.iter().map(|op| match op {
            Op::GatedMatMul(op) => self.gate_bytes(op),
            Op::Experts(op) => self.gates_bytes(op),
            Op::Attention(op) => self.parts_bytes(op),
            _ => 0,
        });
        ops.max().unwrap_or(0)
    }

    fn embed(&self, op: &Embed) -> Operation {
        let placed = &self.placed[op.weight.0];
        let blocks = blocks(placed);
        let kernel = kernels::EMBED.of(placed.dtype);
        let (variant, grid) = forms::by_items(kernel, weight_overrides(placed), blocks * 4);
        let indices = match op.lookup {
            Lookup::Token => self.layout.tokens(),
            Lookup::Position => self.layout.positions(),
        };
        let part = |part: &Part| Dispatch {
            variant: variant.clone(),
            params: EmbedParams {
                indices: indices as u32,
                columns: placed.columns as u32,
                blocks: blocks as u32,
                outputs: part.rows as u32,
                first: part.first as u32,
                quants: vector(part.quants),
                scales: part.scales.word as u32,
                out_stride: self.stride(op.out),
                add: u32::from(op.add),
                scale: op.scale,
            }
            .words(),
            slots: weight_slots(
                placed,
                part,
                vec![(1, Slot::Step), (7, Slot::Activation(op.out))],
            ),
            grid,
        };
        only(
            "embed",
            Rows::Tokens,
            placed.parts.iter().map(part).collect(),
        )
    }

    fn norm(&self, op: &Norm) -> Result<Operation> {
        self.distinct(op.x, op.out)?;
        let spec = &self.tape.buffers[op.x.0];
        let weight = self.only_place(op.weight)?;
        let bias = op.bias.map(|bias| self.only_place(bias)).transpose()?;
        let size = spec.columns / op.groups;
        let whole_quads = op.groups == 1 || size.is_multiple_of(4);
        let item = if whole_quads { 4 } else { 1 };
        let params = NormParams {
            rows_at: rows_at(spec.rows),
            groups: op.groups as u32,
            size: size as u32,
            items: size.div_ceil(item) as u32,
            stride: self.stride(op.x) / item as u32,
            weight: (weight.word / item) as u32,
            weight_items: self.placed[op.weight.0].columns.div_ceil(item) as u32,
            bias: bias.map_or(0, |bias| bias.word / item) as u32,
            has_bias: u32::from(bias.is_some()),
            add: u32::from(op.add),
            epsilon: op.epsilon,
        }
        .words();
        let bias = bias.map(|bias| Slot::Weights(bias.buffer));
        let slots = vec![
            (1, Slot::Step),
            (2, Slot::Activation(op.x)),
            (3, Slot::Weights(weight.buffer)),
            (4, bias.unwrap_or(Slot::Nothing)),
            (5, Slot::Activation(op.out)),
        ];
        let forms = forms::norm(self.adapter, op.groups, whole_quads, op.centred).into_iter();
        let alternatives = forms.map(|form| {
            let dispatch = Dispatch {
                variant: form.variant,
                params: params.clone(),
                slots: slots.clone(),
                grid: form.grid,
            };
            Alternative {
                name: form.name,
                about: format!("normalisation of {} groups of {size}", op.groups),
                promising: !(form.barriers && self.adapter.software),
                probe: vec![dispatch.clone()],
                dispatches: vec![dispatch],
            }
        });
        Ok(Operation {
            rows: spec.rows,
            classes: vec![Class {
                from: 1,
                alternatives: alternatives.collect(),
            }],
        })
    }

    fn select_rows(&self, op: &SelectRows) -> Result<Operation> {
        self.distinct(op.x, op.out)?;
        let stride = self.stride(op.x);
        let (variant, grid) = forms::by_items(&kernels::SELECT_ROWS, vec![], stride as usize / 4);
        let dispatch = Dispatch {
            variant,
            params: SelectRowsParams {
                outputs: self.layout.outputs() as u32,
                stride,
            }
            .words(),
            slots: vec![
                (1, Slot::Step),
                (2, Slot::Activation(op.x)),
                (3, Slot::Activation(op.out)),
            ],
            grid,
        };
        Ok(only("select_rows", Rows::Outputs, vec![dispatch]))
    }

    fn stride(&self, buffer: BufferId) -> u32 {
        stride(self.tape.buffers[buffer.0].columns) as u32
    }

    /// Where a vector or table lies.
    fn only_place(&self, weight: WeightId) -> Result<Place> {
        self.placed[weight.0].only_place(&self.specs[weight.0].name)
    }

    /// A buffer cannot be read and written by one dispatch under two bindings.
    fn distinct(&self, input: BufferId, out: BufferId) -> Result<()> {
        if input == out {
            let name = &self.tape.buffers[out.0].name;
            return Err(Error::internal(format!(
                "{name}: an operation would read the buffer it writes"
            )));
        }
        Ok(())
    }
}

/// An operation that is always run in one way.
fn only(name: &'static str, rows: Rows, dispatches: Vec<Dispatch>) -> Operation {
    Operation {
        rows,
        classes: vec![Class {
            from: 1,
            alternatives: vec![Alternative {
                name,
                about: String::new(),
                promising: true,
                probe: Vec::new(),
                dispatches,
            }],
        }],
    }
}

/// Blocks of 32 values in a row, the last perhaps not whole.
fn blocks(placed: &Placed) -> usize {
    placed.columns.div_ceil(32)
}

/// A place in vectors of four words.
fn vector(place: Place) -> u32 {
    place.word as u32 / 4
}

/// Adds the buffers of a part of a weight.
fn weight_slots(placed: &Placed, part: &Part, mut slots: Vec<(u32, Slot)>) -> Vec<(u32, Slot)> {
    slots.push((3, Slot::Weights(part.quants.buffer)));
    if placed.dtype.block_len() > 1 {
        slots.push((4, Slot::Weights(part.scales.buffer)));
    }
    slots
}

/// The overrides of `lib/plain_weight.wgsl` and `lib/stripes.wgsl`, for formats that have them.
fn weight_overrides(placed: &Placed) -> Overrides {
    let mut overrides = Overrides::new();
    if placed.dtype.block_len() == 1 {
        overrides.push(("ALIGNED", f64::from(placed.columns.is_multiple_of(32))));
    }
    if placed.dtype != DType::F32 {
        overrides.push(("STRIPE", placed.stripe as f64));
    }
    overrides
}
