//! One step of one tape: each operation, by its kernel.

use std::{mem::take, ops::Range};

use super::{
    Activations, attention,
    cache::Layer,
    experts,
    formats::ROWS,
    math::activate,
    norm,
    product::{Input, Sums, multiply},
    quantised::{Blocks, MOST},
    short_conv::{self, Past},
    simd::{Eights, F32x4, Sixteens},
    weight::{PANEL, Panel, Weight},
};
use crate::{
    ops::{
        self, Attention, BufferId, CacheSpec, Embed, Experts, GatedMatMul, Lookup, MatMul, Norm,
        Op, RotaryStore, Rows, ShortConv, WeightId,
    },
    tape::{Step, Tape},
};

/// Memory that is kept from step to step.
pub struct Scratch {
    panel: Box<Panel>,
    sums: [Vec<[f32; ROWS]>; 2],
    eights: Blocks<Eights>,
    sixteens: Blocks<Sixteens>,
    row: Vec<f32>,
    attention: attention::Scratch,
    pub experts: experts::Rows,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            panel: Box::new([[0.0; ROWS]; PANEL]),
            sums: Default::default(),
            eights: Blocks::default(),
            sixteens: Blocks::default(),
            row: Vec::new(),
            attention: attention::Scratch::default(),
            experts: experts::Rows::default(),
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
}

impl<'a> Pass<'a> {
    /// Runs one operation.
    pub fn run(&mut self, op: &Op) {
        match op {
            Op::Embed(op) => self.embed(op),
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
            Op::Experts(op) => self.experts(op),
            Op::SelectRows(op) => {
                let mut out = take(&mut self.buffers[op.out.0]);
                let (x, columns) = (self.get(op.x), self.columns(op.x));
                ops::select_rows::reference(x, columns, &self.step.outputs, &mut out);
                self.buffers[op.out.0] = out;
            }
        }
    }

    /// The rows of `buffer` that this step uses.
    pub fn get(&self, buffer: BufferId) -> &[f32] {
        let rows = match self.tape.buffers[buffer.0].rows {
            Rows::Tokens => self.step.tokens.len(),
            Rows::Outputs => self.step.outputs.len(),
        };
        &self.buffers[buffer.0][..rows * self.columns(buffer)]
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

    fn embed(&mut self, op: &Embed) {
        let indices = match op.lookup {
            Lookup::Token => &self.step.tokens,
            Lookup::Position => &self.step.positions,
        };
        let columns = self.columns(op.out);
        let out = &mut self.buffers[op.out.0];
        let row = &mut self.scratch.row;
        row.resize(columns, 0.0);
        for (&index, out) in indices.iter().zip(out.chunks_exact_mut(columns)) {
            self.weights[op.weight.0].row(index as usize, &mut self.scratch.panel, row);
            for (out, value) in out.iter_mut().zip(row.iter()) {
                let value = op.scale * value;
                *out = if op.add { *out + value } else { value };
            }
        }
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
        let octets = 0..columns.div_ceil(ROWS);
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
        let octets = 0..columns.div_ceil(ROWS);
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

    fn experts(&mut self, op: &Experts) {
        let (x_len, route_len) = (self.get(op.x).len(), self.get(op.route).len());
        let (x, mut out) = self.take(op.x, op.out);
        let route = &self.buffers[op.route.0][..route_len];
        let matrices = [op.gate, op.up, op.down].map(|weight| &self.weights[weight.0]);
        let x_rows = &x[..x_len];
        experts::experts(
            op,
            matrices,
            self.activations,
            x_rows,
            route,
            self.scratch,
            &mut out,
        );
        self.give(op.x, x, op.out, out);
    }

    fn rotary_store(&mut self, op: &RotaryStore) {
        let (head_dim, width) = (self.cache.head_dim, self.cache.width());
        let [mut q, mut k] = [op.q, op.k].map(|buffer| take(&mut self.buffers[buffer.0]));
        let v = &self.buffers[op.v.0];
        let angles = &mut self.scratch.row;
        for row in 0..self.step.tokens.len() {
            let (slot, position) = (self.step.slots[row] as usize, self.step.positions[row]);
            let q = &mut q[row * op.heads * head_dim..][..op.heads * head_dim];
            let k = &mut k[row * width..][..width];
            if let Some(rotation) = op.rotation {
                angles.resize(rotation.dims, 0.0);
                let first = self.step.angles.get(slot).copied().unwrap_or(0);
                let table = &self.weights[rotation.table.0];
                table.row((first + position) as usize, &mut self.scratch.panel, angles);
                rotate(q, head_dim, angles, rotation.pairing);
                rotate(k, head_dim, angles, rotation.pairing);
            }
            let position = position as usize;
            let page = self.step.tables[slot][position / self.cache.page_size];
            let at = position % self.cache.page_size;
            self.layers[op.layer].store(page as usize, at, k, &v[row * width..][..width]);
        }
        self.buffers[op.q.0] = q;
        self.buffers[op.k.0] = k;
    }

    fn attention(&mut self, op: &Attention) {
        let (q, mut out) = self.take(op.q, op.out);
        let scratch = &mut self.scratch.attention;
        let layer = &self.layers[op.layer];
        attention::attend(op, self.cache, layer, self.step, &q, &mut out, scratch);
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

/// Numbers that no quantised ones stand beside yet.
pub fn input(x: &[f32], columns: usize) -> Input<'_> {
    Input {
        x,
        columns,
        eights: None,
        sixteens: None,
    }
}

/// Multiplies `input` with octets of matrices of one shape, and gives `each` the sums of each octet.
pub fn products<const M: usize>(
    matrices: [&Weight; M],
    octets: Range<usize>,
    input: Input,
    activations: Activations,
    scratch: &mut Scratch,
    mut each: impl FnMut(usize, [&Sums; M]),
) {
    let rows = input.x.len() / input.columns;
    if rows == 0 {
        return;
    }
    let Scratch {
        panel,
        sums,
        eights,
        sixteens,
        ..
    } = scratch;
    let mut input = input;
    let eight = |matrix: &Weight| activations == Activations::Q8 && matrix.meets_eights();
    if matrices.iter().any(|matrix| eight(matrix)) {
        eights.fill(input.x, input.columns, MOST[0]);
        input.eights = Some(eights);
    }
    let sixteen = |matrix: &Weight| {
        activations != Activations::F32 && matrix.is_quantised() && !eight(matrix)
    };
    if matrices.iter().any(|matrix| sixteen(matrix)) {
        sixteens.fill(input.x, input.columns, MOST[1]);
        input.sixteens = Some(sixteens);
    }
    for sums in sums.iter_mut() {
        sums.resize(rows, [0.0; ROWS]);
    }
    for octet in octets {
        for (matrix, sums) in matrices.iter().zip(sums.iter_mut()) {
            multiply(matrix, octet, input, panel, sums);
        }
        each(octet, std::array::from_fn(|i| &*sums[i]));
    }
}

/// The next eight of `values`; zeros where there are fewer.
#[inline(always)]
fn part(values: &[f32]) -> [F32x4; 2] {
    if let Some(octet) = values.first_chunk() {
        return super::simd::load8(octet);
    }
    let mut octet = [0.0; ROWS];
    octet[..values.len()].copy_from_slice(values);
    super::simd::load8(&octet)
}

/// Writes eight values, or as many as there is room for.
#[inline(always)]
fn put(values: [F32x4; 2], to: &mut [f32]) {
    if let Some(to) = to.first_chunk_mut() {
        return super::simd::store8(values, to);
    }
    let mut octet = [0.0; ROWS];
    super::simd::store8(values, &mut octet);
    to.copy_from_slice(&octet[..to.len()]);
}

/// As [`ops::rotary_store::reference`], in f32.
fn rotate(heads: &mut [f32], head_dim: usize, angles: &[f32], pairing: ops::Pairing) {
    let (cosines, sines) = angles.split_at(angles.len() / 2);
    for head in heads.chunks_exact_mut(head_dim) {
        let head = &mut head[..angles.len()];
        let turned = |a: f32, b: f32, i: usize| {
            let (cos, sin) = (cosines[i], sines[i]);
            (a * cos - b * sin, b * cos + a * sin)
        };
        match pairing {
            ops::Pairing::Halves => {
                let (first, second) = head.split_at_mut(sines.len());
                for (i, (a, b)) in first.iter_mut().zip(second).enumerate() {
                    (*a, *b) = turned(*a, *b, i);
                }
            }
            ops::Pairing::Neighbours => {
                for (i, pair) in head.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                    (pair[0], pair[1]) = turned(pair[0], pair[1], i);
                }
            }
        }
    }
}
