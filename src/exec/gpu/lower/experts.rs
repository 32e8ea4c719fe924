//! Mixtures of experts: routing, and the products of the chosen ones.

use super::{
    super::{
        dispatch::{Alternative, Class, Dispatch, Operation, Slot, stride},
        forms::{self, ExpertsForm},
        params::{ExpertsParams, Params, RouteParams},
        placement::Part,
    },
    Lowering, blocks,
    linear::activation_params,
    only, vector, weight_overrides, weight_slots,
};
use crate::{
    error::Result,
    ops::{Activation, BufferId, Experts, Route, Rows, WeightId},
};

/// How a product joins its output: the constants of `lib/experts.wgsl`.
#[derive(Clone, Copy, PartialEq)]
enum Join {
    Plain = 0,
    Gate = 1,
    Sum = 2,
}

/// The products of one of the three matrices.
struct Product {
    x: BufferId,
    /// Values from slot to slot of x; 0 where slots share it.
    x_slot: usize,
    route: BufferId,
    weight: WeightId,
    /// Rows of one expert's matrix.
    outputs: usize,
    activation: Option<Activation>,
    residual: Slot,
    out: Slot,
    out_stride: usize,
    /// Values from slot to slot of out.
    out_slot: usize,
    join: Join,
}

impl Lowering<'_> {
    pub(super) fn route(&self, op: &Route) -> Result<Operation> {
        self.distinct(op.scores, op.out)?;
        let columns = |buffer: BufferId| self.tape.buffers[buffer.0].columns;
        let (variant, grid) = forms::route(self.adapter);
        let dispatch = Dispatch {
            variant,
            params: RouteParams {
                experts: columns(op.scores) as u32,
                chosen: columns(op.out) as u32 / 2,
                normalise: u32::from(op.normalise),
                stride: self.stride(op.scores),
                out_stride: self.stride(op.out),
            }
            .words(),
            slots: vec![
                (1, Slot::Step),
                (2, Slot::Activation(op.scores)),
                (3, Slot::Activation(op.out)),
            ],
            grid,
        };
        Ok(only("route", Rows::Tokens, vec![dispatch]))
    }

    /// The gates go to the scratch buffer, and gate the other branch from there.
    pub(super) fn experts(&self, op: &Experts) -> Result<Operation> {
        self.distinct(op.x, op.gated)?;
        self.distinct(op.gated, op.out)?;
        let hidden = self.tape.buffers[op.x.0].columns;
        let width = self.placed[op.down.0].columns;
        let between = stride(width);
        let gate = Product {
            x: op.x,
            x_slot: 0,
            route: op.route,
            weight: op.gate,
            outputs: width,
            activation: None,
            residual: Slot::Nothing,
            out: Slot::Scratch,
            out_stride: self.stride(op.gated) as usize,
            out_slot: between,
            join: Join::Plain,
        };
        let up = Product {
            weight: op.up,
            activation: Some(op.activation),
            residual: Slot::Scratch,
            out: Slot::Activation(op.gated),
            join: Join::Gate,
            ..gate
        };
        let down = Product {
            x: op.gated,
            x_slot: between,
            weight: op.down,
            outputs: hidden,
            residual: Slot::Nothing,
            out: Slot::Activation(op.out),
            out_stride: self.stride(op.out) as usize,
            out_slot: 0,
            join: Join::Sum,
            ..gate
        };
        let alternatives = forms::experts(self.adapter).map(|form| {
            let products = [&gate, &up, &down].into_iter();
            let dispatches = products.flat_map(|product| self.expert_product(product, form));
            let dispatches: Vec<_> = dispatches.collect();
            Alternative {
                name: form.name(),
                about: format!("experts of {}", self.placed[op.gate.0].shape()),
                promising: !(form.barriers() && self.adapter.software),
                probe: dispatches.clone(),
                dispatches,
            }
        });
        Ok(Operation {
            rows: Rows::Tokens,
            classes: vec![Class {
                from: 1,
                alternatives: alternatives.into(),
            }],
        })
    }

    /// Bytes of the gates of all rows.
    pub(super) fn gates_bytes(&self, op: &Experts) -> u64 {
        (self.tape.rows(op.gated) * self.stride(op.gated) as usize * 4) as u64
    }

    /// A dispatch for each part of the weight.
    fn expert_product(&self, product: &Product, form: ExpertsForm) -> Vec<Dispatch> {
        let placed = &self.placed[product.weight.0];
        let chosen = self.tape.buffers[product.route.0].columns / 2;
        let items = match product.join {
            Join::Sum => product.outputs,
            Join::Plain | Join::Gate => product.outputs * chosen,
        };
        let (variant, grid) =
            form.kernel(self.adapter, placed.dtype, items, weight_overrides(placed));
        let (activation, cap) = activation_params(product.activation);
        let part = |part: &Part| {
            let params = ExpertsParams {
                chosen: chosen as u32,
                columns: placed.columns as u32,
                blocks: blocks(placed) as u32,
                outputs: product.outputs as u32,
                part: part.rows as u32,
                first: part.first as u32,
                quants: vector(part.quants),
                scales: part.scales.word as u32,
                join: product.join as u32,
                route_stride: self.stride(product.route),
                x_stride: self.stride(product.x),
                x_slot: product.x_slot as u32,
                out_stride: product.out_stride as u32,
                out_slot: product.out_slot as u32,
                activation,
                cap,
            };
            let slots = vec![
                (1, Slot::Step),
                (2, Slot::Activation(product.x)),
                (5, Slot::Activation(product.route)),
                (6, product.residual),
                (7, product.out),
            ];
            Dispatch {
                variant: variant.clone(),
                params: params.words(),
                slots: weight_slots(placed, part, slots),
                grid,
            }
        };
        placed.parts.iter().map(part).collect()
    }
}
