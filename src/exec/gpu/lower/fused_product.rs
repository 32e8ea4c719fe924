//! Products with their normalisation and gating, as the fused kernels compute them.

use super::{
    super::{
        dispatch::{Alternative, Class, Dispatch, Operation, Slot, rows_at, stride},
        matmul_forms,
        params::{MatMulFusedParams, Params},
        placement::{Part, Place, Placed},
    },
    Lowering, blocks,
    linear::activation_params,
    vector, weight_overrides, weight_slots,
};
use crate::{
    error::Result,
    ops::{Activation, BufferId, Norm},
};

/// A product as the fused kernels compute it.
pub(super) struct Product<'a> {
    pub x: BufferId,
    pub norm: Option<&'a Norm>,
    /// Rows of gates first, where it is gated.
    pub weight: &'a Placed,
    pub gated: bool,
    pub bias: Option<Place>,
    pub scale: f32,
    pub activation: Option<Activation>,
    pub out: Slot,
    pub out_columns: usize,
}

impl Lowering<'_> {
    /// The forms of one product; a dispatch for each part of its weight.
    pub(super) fn fused_product(&self, product: &Product) -> Result<Operation> {
        let placed = product.weight;
        let rows = self.tape.buffers[product.x.0].rows;
        let gain = product.norm.map(|norm| self.only_place(norm.weight));
        let gain = gain.transpose()?;
        let (activation, cap) = activation_params(product.activation);
        let mut overrides = weight_overrides(placed);
        overrides.push(("NORMED", f64::from(product.norm.is_some())));
        overrides.push(("GATED", f64::from(product.gated)));
        let forms = |part: &Part| {
            let outputs = part.rows / if product.gated { 2 } else { 1 };
            (
                outputs,
                matmul_forms::matmul_fused(self.adapter, placed.dtype, outputs, &overrides),
            )
        };
        let dispatch = |part: &Part, form: usize| {
            let (outputs, forms) = forms(part);
            let (_, _, variant, grid) = forms[form].clone();
            let params = MatMulFusedParams {
                rows_at: rows_at(rows),
                columns: placed.columns as u32,
                blocks: blocks(placed) as u32,
                outputs: outputs as u32,
                first: part.first as u32,
                quants: vector(part.quants),
                scales: part.scales.word as u32,
                gain: gain.map_or(0, vector),
                has_bias: u32::from(product.bias.is_some()),
                bias: product.bias.map_or(0, |bias| bias.word as u32),
                x_stride: self.stride(product.x),
                out_stride: stride(product.out_columns) as u32,
                activation,
                cap,
                scale: product.scale,
                epsilon: product.norm.map_or(0.0, |norm| norm.epsilon),
            };
            let weights =
                |place: Option<Place>| place.map_or(Slot::Nothing, |p| Slot::Weights(p.buffer));
            let slots = vec![
                (1, Slot::Step),
                (2, Slot::Activation(product.x)),
                (5, weights(product.bias)),
                (6, weights(gain)),
                (8, product.out),
            ];
            Dispatch {
                variant,
                params: params.words(),
                slots: weight_slots(placed, part, slots),
                grid,
            }
        };
        let (_, names) = forms(&placed.parts[0]);
        let alternatives = names
            .iter()
            .enumerate()
            .map(|(form, (name, barriers, ..))| {
                let dispatches: Vec<_> = placed.parts.iter().map(|p| dispatch(p, form)).collect();
                Alternative {
                    name,
                    about: format!("{}, fused", placed.shape()),
                    promising: !(*barriers && self.adapter.software),
                    probe: dispatches[..1].to_vec(),
                    dispatches,
                }
            });
        Ok(Operation {
            rows,
            classes: vec![Class {
                from: 1,
                alternatives: alternatives.collect(),
            }],
        })
    }
}
