//! One step of one tape: each operation, by its kernel.

use std::{mem::take, slice::from_mut};

use super::{
    Activations, attention,
    cache::Layer,
    crew::{Crew, Parcels, Part, Share},
    experts,
    formats::ROWS,
    linear::{input, octets, part, products, put},
    math::activate,
    norm,
    quantised::Blocks,
    rotary,
    short_conv::{self, Past},
    simd::{Eights, F32x4, Sixteens, Words},
    split::Divided,
    weight::{PANEL, Panel, Weight},
};
use crate::{
    error::Result,
    ops::{
        self, Attention, BufferId, CacheSpec, Embed, Experts, GatedMatMul, Lookup, MatMul, Norm,
        Op, RotaryStore, Rows, ShortConv, WeightId,
    },
    tape::{Step, Tape},
};

/// Memory that is kept from step to step.
pub struct Scratch {
    pub panel: Box<Panel>,
    pub sums: [Vec<[f32; ROWS]>; 2],
    pub eights: Blocks<Eights>,
    pub sixteens: Blocks<Sixteens>,
    pub words: Blocks<Words>,
    pub row: Vec<f32>,
    parcels: Parcels,
    attention: attention::Scratch,
    gated: Vec<f32>,
    /// What an expert gives.
    pub down: Vec<f32>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            panel: Box::new([[0.0; ROWS]; PANEL]),
            sums: Default::default(),
            eights: Blocks::default(),
            sixteens: Blocks::default(),
            words: Blocks::default(),
            row: Vec::new(),
            parcels: Parcels::default(),
            attention: attention::Scratch::default(),
            gated: Vec::new(),
            down: Vec::new(),
        }
    }
}

/// What a step works on.
pub struct Pass<'a> {
    pub tape: &'a Tape,
    pub step: &'a Step,
    pub cache: &'a CacheSpec,
    pub weights: &'a [Weight],
    pub layers: &'a mut [Layer],
    pub pasts: &'a mut [Past],
    pub buffers: &'a mut [Vec<f32>],
    pub scratch: &'a mut Scratch,
    /// How activations meet quantised weights.
    pub activations: Activations,
    /// The threads that run it together.
    pub crew: &'a dyn Crew,
    pub share: Share,
}

impl<'a> Pass<'a> {
    /// Runs one operation.
    pub fn run(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::Embed(op) => self.embed(op)?,
            Op::Norm(op) => self.norm(op),
            Op::MatMul(op) => self.matmul(op),
            Op::GatedMatMul(op) => self.gated_matmul(op),
            Op::RotaryStore(op) => self.rotary_store(op),
            Op::Attention(op) => self.attention(op),
            Op::ShortConv(op) => self.short_conv(op),
            Op::Route(op) => {
                let mut out = take(&mut self.buffers[op.out.0]);
                let (experts, chosen) = (self.columns(op.scores), self.columns(op.out) / 2);
                let scores = self.get(op.scores);
                ops::route::reference(scores, experts, chosen, op.normalise, &mut out);
                self.buffers[op.out.0] = out;
            }
            Op::Experts(op) => self.experts(op)?,
            Op::SelectRows(op) => {
                let mut out = take(&mut self.buffers[op.out.0]);
                let (x, columns) = (self.get(op.x), self.columns(op.x));
                ops::select_rows::reference(x, columns, &self.step.outputs, &mut out);
                self.buffers[op.out.0] = out;
            }
        }
        Ok(())
    }

    /// Completes `rows` rows of `buffers` where the thread `reads` what others have of them; all must call it.
    pub fn complete(
        &mut self,
        buffers: &[Divided],
        rows: impl Fn(&Self, BufferId) -> usize,
        reads: bool,
    ) -> Result<()> {
        let share = self.share;
        let parts = buffers.iter().map(|&Divided { buffer, unit }| {
            let stride = self.columns(buffer);
            let rows = rows(self, buffer);
            move |thread| Part {
                buffer,
                rows: 0..rows,
                columns: share.at(thread).columns(stride, unit),
                stride,
            }
        });
        let parts: Vec<_> = parts.collect();
        let parts = |thread: usize| parts.iter().map(|part| part(thread)).collect();
        let parcels = &mut self.scratch.parcels;
        parcels.swap(self.crew, self.buffers, parts, reads)
    }

    /// The rows of `buffer` that this step uses.
    pub fn rows(&self, buffer: BufferId) -> usize {
        match self.tape.buffers[buffer.0].rows {
            Rows::Tokens => self.step.tokens.len(),
            Rows::Outputs => self.step.outputs.len(),
        }
    }

    /// Their values.
    pub fn get(&self, buffer: BufferId) -> &[f32] {
        &self.buffers[buffer.0][..self.rows(buffer) * self.columns(buffer)]
    }

    fn columns(&self, buffer: BufferId) -> usize {
        self.tape.buffers[buffer.0].columns
    }

    /// The rows of `x` and all of `out`, which is taken away until it is given back. Where they are one
    /// buffer, what is read is a copy.
    fn take(&mut self, x: BufferId, out: BufferId) -> (Vec<f32>, Vec<f32>) {
        let x_taken = if x == out {
            self.get(x).to_vec()
        } else {
            take(&mut self.buffers[x.0])
        };
        (x_taken, take(&mut self.buffers[out.0]))
    }

    fn give(&mut self, x: BufferId, x_taken: Vec<f32>, out: BufferId, out_taken: Vec<f32>) {
        if x != out {
            self.buffers[x.0] = x_taken;
        }
        self.buffers[out.0] = out_taken;
    }

    fn vector(&self, weight: WeightId) -> &'a [f32] {
        self.weights[weight.0].vector()
    }

    fn embed(&mut self, op: &Embed) -> Result<()> {
        let indices = match op.lookup {
            Lookup::Token => &self.step.tokens,
            Lookup::Position => &self.step.positions,
        };
        let columns = self.columns(op.out);
        let weight = &self.weights[op.weight.0];
        let owners = indices.iter().map(|&index| weight.owner(index as usize));
        let owners: Vec<_> = owners.collect();
        let out = &mut self.buffers[op.out.0];
        let row = &mut self.scratch.row;
        row.resize(columns, 0.0);
        let rows = indices.iter().zip(out.chunks_exact_mut(columns));
        for ((&index, out), owner) in rows.zip(&owners) {
            if owner.is_some_and(|owner| owner != self.share.index) {
                continue;
            }
            weight.row(index as usize, &mut self.scratch.panel, row);
            for (out, value) in out.iter_mut().zip(row.iter()) {
                let value = op.scale * value;
                *out = if op.add { *out + value } else { value };
            }
        }
        if owners.iter().all(Option::is_none) {
            return Ok(());
        }
        let parts = |thread: usize| {
            let rows = (0..owners.len()).filter(|&row| owners[row] == Some(thread));
            let part = |row| Part {
                buffer: op.out,
                rows: row..row + 1,
                columns: 0..columns,
                stride: columns,
            };
            rows.map(part).collect()
        };
        let parcels = &mut self.scratch.parcels;
        parcels.swap(self.crew, self.buffers, parts, true)
    }

    fn norm(&mut self, op: &Norm) {
        let (rows, size) = (self.get(op.x).len(), self.columns(op.x) / op.groups);
        let (x, mut out) = self.take(op.x, op.out);
        let bias = op.bias.map(|bias| self.vector(bias));
        norm::norm(op, size, self.vector(op.weight), bias, &x[..rows], &mut out);
        self.give(op.x, x, op.out, out);
    }

    fn matmul(&mut self, op: &MatMul) {
        let len = self.get(op.x).len();
        let columns = self.columns(op.out);
        let (x, mut out) = self.take(op.x, op.out);
        let bias = op.bias.map(|bias| self.vector(bias));
        let residual = op.residual.filter(|&residual| residual != op.out);
        let residual = residual.map(|residual| match residual == op.x {
            true => &x,
            false => &self.buffers[residual.0],
        });
        let adds = op.residual.is_some();
        let matrices = [&self.weights[op.weight.0]];
        let octets = octets(&self.share.columns(columns, ROWS));
        let input = input(&x[..len], self.tape.buffers[op.x.0].columns);
        let scale = F32x4::splat(op.scale);
        products(
            matrices,
            octets,
            input,
            self.activations,
            self.scratch,
            |octet, [sums]| {
                let bias = bias.map_or([F32x4::zero(); 2], |bias| part(&bias[octet * ROWS..]));
                for (row, sums) in sums.iter().enumerate() {
                    let at = row * columns + octet * ROWS..(row + 1) * columns;
                    let added = residual.map_or(&out[at.clone()], |residual| &residual[at.clone()]);
                    let mut values = part(sums);
                    values = [0, 1].map(|i| (values[i] + bias[i]) * scale);
                    if let Some(activation) = op.activation {
                        values = values.map(|value| activate(activation, value));
                    }
                    if adds {
                        let added = part(added);
                        values = [0, 1].map(|i| values[i] + added[i]);
                    }
                    put(values, &mut out[at]);
                }
            },
        );
        self.give(op.x, x, op.out, out);
    }

    fn gated_matmul(&mut self, op: &GatedMatMul) {
        let len = self.get(op.x).len();
        let columns = self.columns(op.out);
        let (x, mut out) = self.take(op.x, op.out);
        let biases = op.biases.map(|bias| bias.map(|bias| self.vector(bias)));
        let matrices = [op.gate, op.up].map(|weight| &self.weights[weight.0]);
        let octets = octets(&self.share.columns(columns, ROWS));
        let input = input(&x[..len], self.tape.buffers[op.x.0].columns);
        products(
            matrices,
            octets,
            input,
            self.activations,
            self.scratch,
            |octet, sums| {
                let bias = biases.map(|bias| {
                    bias.map_or([F32x4::zero(); 2], |bias| part(&bias[octet * ROWS..]))
                });
                for (row, (gate, up)) in sums[0].iter().zip(sums[1]).enumerate() {
                    let (gate, up) = (part(gate), part(up));
                    let values = [0, 1].map(|i| {
                        activate(op.activation, gate[i] + bias[0][i]) * (up[i] + bias[1][i])
                    });
                    put(
                        values,
                        &mut out[row * columns + octet * ROWS..(row + 1) * columns],
                    );
                }
            },
        );
        self.give(op.x, x, op.out, out);
    }

    fn experts(&mut self, op: &Experts) -> Result<()> {
        let (x_len, route_len) = (self.get(op.x).len(), self.get(op.route).len());
        let (x, mut out) = self.take(op.x, op.out);
        let call = experts::Call {
            op,
            matrices: [op.gate, op.up, op.down].map(|weight| &self.weights[weight.0]),
            activations: self.activations,
            share: self.share,
            x: &x[..x_len],
            route: &self.buffers[op.route.0][..route_len],
        };
        let mut gated = take(&mut self.scratch.gated);
        call.gated(self.scratch, &mut gated);
        if self.share.count > 1 {
            let (width, rows) = call.shape();
            let parts = |thread: usize| {
                vec![Part {
                    buffer: BufferId(0),
                    rows: 0..rows,
                    columns: self.share.at(thread).columns(width, ROWS),
                    stride: width,
                }]
            };
            let parcels = &mut self.scratch.parcels;
            parcels.swap(self.crew, from_mut(&mut gated), parts, true)?;
        }
        call.down(self.scratch, &gated, &mut out);
        self.scratch.gated = gated;
        self.give(op.x, x, op.out, out);
        Ok(())
    }

    fn rotary_store(&mut self, op: &RotaryStore) {
        let [mut q, mut k] = [op.q, op.k].map(|buffer| take(&mut self.buffers[buffer.0]));
        let heads = self.share.columns(op.heads, 1);
        rotary::rotate_and_store(op, self, heads, &mut q, &mut k);
        self.buffers[op.q.0] = q;
        self.buffers[op.k.0] = k;
    }

    fn attention(&mut self, op: &Attention) {
        let (q, mut out) = self.take(op.q, op.out);
        let scratch = &mut self.scratch.attention;
        let layer = &self.layers[op.layer];
        let heads = self.share.columns(op.heads, 1);
        attention::attend(
            op, self.cache, layer, self.step, &q, heads, &mut out, scratch,
        );
        self.give(op.q, q, op.out, out);
    }

    fn short_conv(&mut self, op: &ShortConv) {
        let len = self.get(op.x).len();
        let (x, mut out) = self.take(op.x, op.out);
        let bias = op.bias.map(|bias| self.vector(bias));
        let factors = (self.vector(op.weight), bias);
        let past = &mut self.pasts[op.layer];
        short_conv::short_conv(op, past, self.step, factors, &x[..len], &mut out);
        self.give(op.x, x, op.out, out);
    }
}
