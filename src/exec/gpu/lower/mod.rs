//! From operations to dispatches: parameters, buffers and, from the table in `forms`, kernels.
//!
//! Lowering is pure: it names buffers and counts workgroups, and touches no device.

mod attention;
mod linear;

use super::{
    dispatch::{Alternative, Class, Dispatch, Operation, Overrides, Slot, rows_at, stride},
    forms::{self, Adapter},
    kernels,
    params::{EmbedParams, Params, RmsNormParams, SelectRowsParams},
    placement::{Part, Place, Placed},
};
use crate::{
    error::{Error, Result},
    ops::{BufferId, CacheSpec, Embed, Op, RmsNorm, Rows, SelectRows, WeightId},
    tape::{StepLayout, Tape},
    tensor::WeightSpec,
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
    /// The operations of the whole tape, in order.
    pub fn tape(&self) -> Result<Vec<Operation>> {
        self.tape.ops.iter().map(|op| self.op(op)).collect()
    }

    fn op(&self, op: &Op) -> Result<Operation> {
        match op {
            Op::Embed(op) => Ok(self.embed(op)),
            Op::RmsNorm(op) => self.rms_norm(op),
            Op::MatMul(op) => self.matmul(op),
            Op::GatedMatMul(op) => self.gated_matmul(op),
            Op::RotaryStore(op) => self.rotary_store(op),
            Op::Attention(op) => self.attention(op),
            Op::SelectRows(op) => self.select_rows(op),
        }
    }

    /// Bytes that the operations need between their own dispatches.
    pub fn scratch_bytes(&self) -> u64 {
        let ops = self.tape.ops.iter().map(|op| match op {
            Op::GatedMatMul(op) => self.gate_bytes(op),
            Op::Attention(op) => self.parts_bytes(op),
            _ => 0,
        });
        ops.max().unwrap_or(0)
    }

    fn embed(&self, op: &Embed) -> Operation {
        let placed = &self.placed[op.weight.0];
        let blocks = blocks(placed);
        let kernel = kernels::EMBED.of(placed.dtype);
        let (variant, grid) = forms::by_items(kernel, aligned(placed), blocks * 4);
        let part = |part: &Part| Dispatch {
            variant: variant.clone(),
            params: EmbedParams {
                tokens: self.layout.tokens() as u32,
                columns: placed.columns as u32,
                blocks: blocks as u32,
                outputs: part.rows as u32,
                first: part.first as u32,
                quants: vector(part.quants),
                scales: part.scales.word as u32,
                out_stride: self.stride(op.out),
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

    fn rms_norm(&self, op: &RmsNorm) -> Result<Operation> {
        self.distinct(op.x, op.out)?;
        let spec = &self.tape.buffers[op.x.0];
        let weight = self.only_place(op.weight)?;
        let params = RmsNormParams {
            rows_at: rows_at(spec.rows),
            columns: spec.columns as u32,
            stride: self.stride(op.x),
            weight: vector(weight),
            epsilon: op.epsilon,
        }
        .words();
        let slots = vec![
            (1, Slot::Step),
            (2, Slot::Activation(op.x)),
            (3, Slot::Weights(weight.buffer)),
            (4, Slot::Activation(op.out)),
        ];
        let forms = forms::rms_norm(self.adapter).into_iter();
        let alternatives = forms.map(|(kernel, barriers, variant, grid)| {
            let name = kernel.name;
            let dispatch = Dispatch {
                variant,
                params: params.clone(),
                slots: slots.clone(),
                grid,
            };
            Alternative {
                name,
                about: "normalisation".into(),
                promising: !(barriers && self.adapter.software),
                sample: vec![dispatch.clone()],
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
                sample: Vec::new(),
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

/// The override of `lib/plain_weight.wgsl`, for formats that have it.
fn aligned(placed: &Placed) -> Overrides {
    match placed.dtype.block_len() {
        1 => vec![("ALIGNED", f64::from(placed.columns.is_multiple_of(32)))],
        _ => Vec::new(),
    }
}
