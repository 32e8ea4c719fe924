//! From operations to dispatches: parameters, buffers and, from [`forms`], kernels.
//!
//! Lowering is pure: it names buffers and counts workgroups, and touches no device.

use super::{
    dispatch::{Dispatch, Overrides, Slot, quads, rows_at, stride},
    forms,
    params::{
        AttentionParams, EmbedParams, MatMulParams, Params, RmsNormParams, RotaryStoreParams,
        SelectRowsParams,
    },
    placement::{Part, Placed},
};
use crate::{
    error::{Error, Result},
    ops::{
        Activation, Attention, BufferId, CacheSpec, Embed, GatedMatMul, MatMul, Op, RmsNorm,
        RotaryStore, Rows, SelectRows, WeightId,
    },
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
    /// Whether the adapter is a program on the CPU.
    pub software: bool,
}

/// How the product of a linear layer joins its output: `JOIN` in `lib/matmul.wgsl`.
#[derive(Clone, Copy, PartialEq)]
enum Join {
    None = 0,
    Out = 1,
    Residual = 2,
    Gate = 3,
}

impl Lowering<'_> {
    /// The dispatches of the whole tape, in order.
    pub fn tape(&self) -> Result<Vec<Dispatch>> {
        let ops = self.tape.ops.iter().map(|op| self.op(op));
        Ok(ops
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect())
    }

    fn op(&self, op: &Op) -> Result<Vec<Dispatch>> {
        match op {
            Op::Embed(op) => Ok(self.embed(op)),
            Op::RmsNorm(op) => Ok(vec![self.rms_norm(op)?]),
            Op::MatMul(op) => self.matmul(op),
            Op::GatedMatMul(op) => self.gated_matmul(op),
            Op::RotaryStore(op) => Ok(vec![self.rotary_store(op)?]),
            Op::Attention(op) => Ok(vec![self.attention(op)?]),
            Op::SelectRows(op) => Ok(vec![self.select_rows(op)?]),
        }
    }

    fn embed(&self, op: &Embed) -> Vec<Dispatch> {
        let placed = &self.placed[op.weight.0];
        let (blocks, octets) = blocks(placed);
        let part = |part: &Part| Dispatch {
            params: EmbedParams {
                tokens: self.layout.tokens() as u32,
                columns: placed.columns as u32,
                blocks: blocks as u32,
                outputs: part.rows as u32,
                first: part.first as u32,
                quants: quants_at(placed.dtype, part),
                scales: part.scales.word as u32,
                out_stride: self.stride(op.out),
            }
            .words(),
            slots: weight_slots(
                placed.dtype,
                part,
                vec![(1, Slot::Step), (7, Slot::Activation(op.out))],
            ),
            rows: Rows::Tokens,
            classes: forms::embed(
                placed.dtype,
                weight_overrides(placed, vec![]),
                blocks * octets,
            ),
        };
        placed.parts.iter().map(part).collect()
    }

    fn rms_norm(&self, op: &RmsNorm) -> Result<Dispatch> {
        self.distinct(op.x, op.out)?;
        let spec = &self.tape.buffers[op.x.0];
        let weight = self.placed[op.weight.0].only_place(&self.specs[op.weight.0].name)?;
        Ok(Dispatch {
            params: RmsNormParams {
                rows_at: rows_at(spec.rows),
                columns: spec.columns as u32,
                stride: self.stride(op.x),
                weight: weight.word as u32 / 4,
                epsilon: op.epsilon,
            }
            .words(),
            slots: vec![
                (1, Slot::Step),
                (2, Slot::Activation(op.x)),
                (3, Slot::Weights(weight.buffer)),
                (4, Slot::Activation(op.out)),
            ],
            rows: spec.rows,
            classes: forms::rms_norm(self.software),
        })
    }

    fn matmul(&self, op: &MatMul) -> Result<Vec<Dispatch>> {
        let join = match op.residual {
            None => Join::None,
            Some(residual) if residual == op.out => Join::Out,
            Some(_) => Join::Residual,
        };
        self.linear(op.x, op.weight, op.bias, op.residual, op.out, join)
    }

    /// The gate's product is stored, then the other branch multiplies it.
    fn gated_matmul(&self, op: &GatedMatMul) -> Result<Vec<Dispatch>> {
        let Activation::Silu = op.activation;
        let mut dispatches = self.linear(op.x, op.gate, None, None, op.out, Join::None)?;
        dispatches.extend(self.linear(op.x, op.up, None, None, op.out, Join::Gate)?);
        Ok(dispatches)
    }

    fn linear(
        &self,
        x: BufferId,
        weight: WeightId,
        bias: Option<WeightId>,
        residual: Option<BufferId>,
        out: BufferId,
        join: Join,
    ) -> Result<Vec<Dispatch>> {
        self.distinct(x, out)?;
        let placed = &self.placed[weight.0];
        let (blocks, _) = blocks(placed);
        let rows = self.tape.buffers[x.0].rows;
        let bias = bias
            .map(|bias| self.placed[bias.0].only_place(&self.specs[bias.0].name))
            .transpose()?;
        let residual = residual.filter(|_| join == Join::Residual);
        let part = |part: &Part| {
            let overrides = weight_overrides(
                placed,
                vec![
                    ("BIAS", f64::from(bias.is_some())),
                    ("JOIN", join as u32 as f64),
                ],
            );
            let slots = vec![
                (1, Slot::Step),
                (2, Slot::Activation(x)),
                (
                    5,
                    bias.map_or(Slot::Nothing, |bias| Slot::Weights(bias.buffer)),
                ),
                (6, residual.map_or(Slot::Nothing, Slot::Activation)),
                (7, Slot::Activation(out)),
            ];
            Dispatch {
                params: MatMulParams {
                    rows_at: rows_at(rows),
                    columns: placed.columns as u32,
                    blocks: blocks as u32,
                    outputs: part.rows as u32,
                    first: part.first as u32,
                    quants: quants_at(placed.dtype, part),
                    scales: part.scales.word as u32,
                    bias: bias.map_or(0, |bias| bias.word as u32),
                    x_stride: self.stride(x),
                    out_stride: self.stride(out),
                }
                .words(),
                slots: weight_slots(placed.dtype, part, slots),
                rows,
                classes: forms::matmul(self.software, placed.dtype, part.rows, &overrides),
            }
        };
        Ok(placed.parts.iter().map(part).collect())
    }

    fn rotary_store(&self, op: &RotaryStore) -> Result<Dispatch> {
        let cache = self.cache;
        let spec = &self.specs[op.table.0];
        let table = self.placed[op.table.0].only_place(&spec.name)?;
        if self.placed[op.table.0].dtype != DType::F32 {
            return Err(Error::internal(format!(
                "{}: a table of angles must be F32",
                spec.name
            )));
        }
        let quads = quads(&cache);
        let items = op.heads * (op.rotary_dims / 2) + cache.kv_heads * quads;
        Ok(Dispatch {
            params: RotaryStoreParams {
                positions: self.layout.positions() as u32,
                slots: self.layout.slots() as u32,
                tables: self.layout.tables() as u32,
                pages: self.layout.pages as u32,
                page_size: cache.page_size as u32,
                heads: op.heads as u32,
                kv_heads: cache.kv_heads as u32,
                head_dim: cache.head_dim as u32,
                quads: quads as u32,
                rotary_dims: op.rotary_dims as u32,
                table: table.word as u32,
                q_stride: self.stride(op.q),
                kv_stride: self.stride(op.k),
            }
            .words(),
            slots: vec![
                (1, Slot::Step),
                (2, Slot::Activation(op.q)),
                (3, Slot::Activation(op.k)),
                (4, Slot::Activation(op.v)),
                (5, Slot::Weights(table.buffer)),
                (6, Slot::Keys(op.layer)),
                (7, Slot::Values(op.layer)),
            ],
            rows: Rows::Tokens,
            classes: forms::rotary_store(&cache, op.pairing, items),
        })
    }

    fn attention(&self, op: &Attention) -> Result<Dispatch> {
        self.distinct(op.q, op.out)?;
        let cache = self.cache;
        let quads = quads(&cache);
        Ok(Dispatch {
            params: AttentionParams {
                positions: self.layout.positions() as u32,
                slots: self.layout.slots() as u32,
                tables: self.layout.tables() as u32,
                pages: self.layout.pages as u32,
                page_size: cache.page_size as u32,
                heads: op.heads as u32,
                kv_heads: cache.kv_heads as u32,
                head_dim: cache.head_dim as u32,
                quads: quads as u32,
                stride: self.stride(op.q),
                scale: op.scale,
            }
            .words(),
            slots: vec![
                (1, Slot::Step),
                (2, Slot::Activation(op.q)),
                (3, Slot::Keys(op.layer)),
                (4, Slot::Values(op.layer)),
                (5, Slot::Activation(op.out)),
            ],
            rows: Rows::Tokens,
            classes: forms::attention(&cache, op.heads),
        })
    }

    fn select_rows(&self, op: &SelectRows) -> Result<Dispatch> {
        self.distinct(op.x, op.out)?;
        let stride = self.stride(op.x);
        Ok(Dispatch {
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
            rows: Rows::Outputs,
            classes: forms::select_rows(stride as usize / 4),
        })
    }

    fn stride(&self, buffer: BufferId) -> u32 {
        stride(self.tape.buffers[buffer.0].columns) as u32
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

/// Blocks in a row of `placed`, and octets in a block, as the kernels count them.
fn blocks(placed: &Placed) -> (usize, usize) {
    match placed.dtype.block_len() {
        1 => (placed.columns.div_ceil(8), 1),
        len => (placed.columns / len, len / 8),
    }
}

/// Where a part begins, in the elements of its format's `quants`.
fn quants_at(dtype: DType, part: &Part) -> u32 {
    let element = match dtype {
        DType::F32 | DType::F16 | DType::BF16 => 4,
        DType::Q8_0 => 2,
        DType::Q4_0 | DType::Q4_1 => 1,
    };
    part.quants.word as u32 / element
}

fn weight_slots(dtype: DType, part: &Part, mut slots: Vec<(u32, Slot)>) -> Vec<(u32, Slot)> {
    slots.push((3, Slot::Weights(part.quants.buffer)));
    if dtype.block_len() > 1 {
        slots.push((4, Slot::Weights(part.scales.buffer)));
    }
    slots
}

fn weight_overrides(placed: &Placed, mut overrides: Overrides) -> Overrides {
    if placed.dtype.block_len() == 1 {
        let aligned = placed.columns.is_multiple_of(8);
        overrides.push(("ALIGNED", f64::from(aligned)));
    }
    overrides
}
