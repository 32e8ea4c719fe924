//! Linear layers, plain and gated.

use super::{
    super::{
        dispatch::{Alternative, Class, Dispatch, Operation, Slot, rows_at, stride},
        matmul_forms::{self, MatMulForm},
        params::{MatMulParams, Params},
        placement::{Part, Place, Placed},
    },
    Lowering, blocks, vector, weight_overrides, weight_slots,
};
use crate::{
    error::Result,
    ops::{Activation, BufferId, GatedMatMul, MatMul, WeightId},
};

/// How a product joins its output: the constants of `lib/matmul.wgsl`.
#[derive(Clone, Copy, PartialEq)]
enum Join {
    Nothing = 0,
    AddOut = 1,
    AddResidual = 2,
    GateResidual = 3,
}

/// One matrix product, its buffers found.
struct Product<'a> {
    x: BufferId,
    weight: &'a Placed,
    bias: Option<Place>,
    residual: Slot,
    out: Slot,
    out_columns: usize,
    join: Join,
    scale: f32,
    activation: Option<Activation>,
}

/// Outputs that are measured on a software adapter: enough for every form, few enough to be soon done.
const PROBE_OUTPUTS: usize = 256;
/// And on a GPU, whose every core should have work: forms that give it workgroups of many outputs would
/// otherwise be judged by how long one of them takes.
const GPU_PROBE_OUTPUTS: usize = 4096;

impl Lowering<'_> {
    pub(super) fn matmul(&self, op: &MatMul) -> Result<Operation> {
        self.distinct(op.x, op.out)?;
        let (join, residual) = match op.residual {
            None => (Join::Nothing, Slot::Nothing),
            Some(residual) if residual == op.out => (Join::AddOut, Slot::Nothing),
            Some(residual) => (Join::AddResidual, Slot::Activation(residual)),
        };
        let product = Product {
            x: op.x,
            weight: &self.placed[op.weight.0],
            bias: op.bias.map(|bias| self.only_place(bias)).transpose()?,
            residual,
            out: Slot::Activation(op.out),
            out_columns: self.tape.buffers[op.out.0].columns,
            join,
            scale: op.scale,
            activation: op.activation,
        };
        Ok(self.products(&[product]))
    }

    /// The gate's product goes to the scratch buffer, and gates the other branch from there.
    pub(super) fn gated_matmul(&self, op: &GatedMatMul) -> Result<Operation> {
        self.distinct(op.x, op.out)?;
        let bias = |bias: Option<WeightId>| bias.map(|bias| self.only_place(bias)).transpose();
        let gate = Product {
            x: op.x,
            weight: &self.placed[op.gate.0],
            bias: bias(op.biases[0])?,
            residual: Slot::Nothing,
            out: Slot::Scratch,
            out_columns: self.tape.buffers[op.out.0].columns,
            join: Join::Nothing,
            scale: 1.0,
            activation: None,
        };
        let up = Product {
            weight: &self.placed[op.up.0],
            bias: bias(op.biases[1])?,
            residual: Slot::Scratch,
            out: Slot::Activation(op.out),
            join: Join::GateResidual,
            activation: Some(op.activation),
            ..gate
        };
        Ok(self.products(&[gate, up]))
    }

    /// Bytes of the gates of all rows.
    pub(super) fn gate_bytes(&self, op: &GatedMatMul) -> u64 {
        let columns = self.tape.buffers[op.out.0].columns;
        (self.tape.rows(op.out) * stride(columns) * 4) as u64
    }

    fn products(&self, products: &[Product]) -> Operation {
        let probe_outputs = match self.adapter.software {
            true => PROBE_OUTPUTS,
            false => GPU_PROBE_OUTPUTS,
        };
        let alternative = |form: MatMulForm, from: usize| Alternative {
            name: form.name(),
            about: products[0].weight.shape(),
            promising: form.promising(self.adapter, from),
            dispatches: products
                .iter()
                .flat_map(|product| self.product(product, form, usize::MAX))
                .collect(),
            probe: self
                .product(&products[0], form, probe_outputs)
                .into_iter()
                .take(1)
                .collect(),
        };
        let whole = products[0].weight.columns.is_multiple_of(32);
        let classes = matmul_forms::matmul(self.adapter, whole).map(|(from, forms)| Class {
            from,
            alternatives: forms
                .into_iter()
                .map(|form| alternative(form, from))
                .collect(),
        });
        Operation {
            rows: self.tape.buffers[products[0].x.0].rows,
            classes: classes.into(),
        }
    }

    /// A dispatch for each part of the weight, for at most `most` outputs of each.
    fn product(&self, product: &Product, form: MatMulForm, most: usize) -> Vec<Dispatch> {
        let placed = product.weight;
        let part = |part: &Part| {
            let outputs = part.rows.min(most);
            let (variant, grid) = form.kernel(
                self.adapter,
                placed.dtype,
                outputs,
                weight_overrides(placed),
            );
            let (activation, cap) = activation_params(product.activation);
            let params = MatMulParams {
                rows_at: rows_at(self.tape.buffers[product.x.0].rows),
                columns: placed.columns as u32,
                blocks: blocks(placed) as u32,
                outputs: outputs as u32,
                first: part.first as u32,
                quants: vector(part.quants),
                scales: part.scales.word as u32,
                has_bias: u32::from(product.bias.is_some()),
                bias: product.bias.map_or(0, |bias| bias.word as u32),
                join: product.join as u32,
                x_stride: self.stride(product.x),
                out_stride: stride(product.out_columns) as u32,
                activation,
                cap,
                scale: product.scale,
            };
            let bias = product.bias.map(|bias| Slot::Weights(bias.buffer));
            let slots = vec![
                (1, Slot::Step),
                (2, Slot::Activation(product.x)),
                (5, bias.unwrap_or(Slot::Nothing)),
                (6, product.residual),
                (7, product.out),
            ];
            Dispatch {
                variant,
                params: params.words(),
                slots: weight_slots(placed, part, slots),
                grid,
            }
        };
        placed.parts.iter().map(part).collect()
    }
}

/// The number and the cap that `lib/activation.wgsl` knows an activation by.
pub(super) fn activation_params(activation: Option<Activation>) -> (u32, f32) {
    match activation {
        None => (0, 0.0),
        Some(Activation::Silu) => (1, 0.0),
        Some(Activation::Gelu) => (2, 0.0),
        Some(Activation::GeluTanh) => (3, 0.0),
        Some(Activation::Relu) => (4, 0.0),
        Some(Activation::ReluSquared) => (5, 0.0),
        Some(Activation::SoftCap(cap)) => (6, cap),
    }
}
