//! One step on the reference executor: from the ids in operations to slices for their references.

use half::f16;

use super::Reference;
use crate::{
    exec::Allocation,
    ops::{
        self, Attention, BufferId, CacheSpec, CacheType, Lookup, MatMul, Op, RotaryStore, Rows,
        ShortConv, WeightId,
    },
    tape::{Step, Tape},
    tensor::Matrix,
};

/// One step of one tape.
pub(super) struct Pass<'a> {
    pub executor: &'a Reference,
    pub tape: &'a Tape,
    pub step: &'a Step,
    pub allocation: &'a Allocation,
    pub weights: &'a [Vec<u8>],
    pub buffers: &'a mut [Vec<f32>],
}

impl Pass<'_> {
    /// The rows of `buffer` that this step uses.
    pub fn rows(&self, buffer: BufferId) -> usize {
        match self.tape.buffers[buffer.0].rows {
            Rows::Tokens => self.step.tokens.len(),
            Rows::Outputs => self.step.outputs.len(),
        }
    }

    fn columns(&self, buffer: BufferId) -> usize {
        self.tape.buffers[buffer.0].columns
    }

    fn matrix(&self, weight: WeightId) -> Matrix<'_> {
        let spec = &self.allocation.weights[weight.0];
        Matrix {
            dtype: spec.dtype,
            rows: spec.rows,
            columns: spec.columns,
            blocks: &self.weights[weight.0],
        }
    }

    fn vector(&self, weight: WeightId) -> Vec<f32> {
        let matrix = self.matrix(weight);
        let mut values = vec![0.0; matrix.columns];
        matrix.row(0, &mut values);
        values
    }

    /// A copy of the rows of `buffer` that this step uses.
    fn get(&self, buffer: BufferId) -> Vec<f32> {
        self.buffers[buffer.0][..self.rows(buffer) * self.columns(buffer)].to_vec()
    }

    /// What a result is added to: the rows of `out`, or zeros.
    fn sum(&self, out: BufferId, add: bool) -> Vec<f32> {
        let mut values = self.get(out);
        if !add {
            values.fill(0.0);
        }
        values
    }

    fn put(&mut self, buffer: BufferId, values: &[f32]) {
        self.buffers[buffer.0][..values.len()].copy_from_slice(values);
    }

    /// Runs one operation.
    pub fn run(&mut self, op: &Op) {
        match op {
            Op::Embed(op) => {
                let mut out = self.sum(op.out, op.add);
                let indices = match op.lookup {
                    Lookup::Token => &self.step.tokens,
                    Lookup::Position => &self.step.positions,
                };
                ops::embed::reference(indices, self.matrix(op.weight), op.scale, &mut out);
                self.put(op.out, &out);
            }
            Op::Norm(op) => {
                let mut out = self.sum(op.out, op.add);
                let bias = op.bias.map(|bias| self.vector(bias));
                ops::norm::reference(
                    &self.get(op.x),
                    self.columns(op.x) / op.groups,
                    op.centred,
                    &self.vector(op.weight),
                    bias.as_deref(),
                    op.epsilon,
                    &mut out,
                );
                self.put(op.out, &out);
            }
            Op::MatMul(op) => self.matmul(op),
            Op::GatedMatMul(op) => {
                let mut out = self.get(op.out);
                let (gate, up) = (self.matrix(op.gate), self.matrix(op.up));
                let biases = op.biases.map(|bias| bias.map(|bias| self.vector(bias)));
                ops::gated_matmul::reference(
                    &self.get(op.x),
                    gate,
                    up,
                    [biases[0].as_deref(), biases[1].as_deref()],
                    op.activation,
                    &mut out,
                );
                self.put(op.out, &out);
            }
            Op::RotaryStore(op) => self.rotary_store(op),
            Op::Attention(op) => self.attention(op),
            Op::ShortConv(op) => self.short_conv(op),
            Op::Route(op) => {
                let mut out = self.get(op.out);
                let (experts, chosen) = (self.columns(op.scores), self.columns(op.out) / 2);
                let scores = self.get(op.scores);
                ops::route::reference(&scores, experts, chosen, op.normalise, &mut out);
                self.put(op.out, &out);
            }
            Op::Experts(op) => {
                let mut out = self.get(op.out);
                ops::experts::reference(
                    &self.get(op.x),
                    &self.get(op.route),
                    self.columns(op.route) / 2,
                    [op.gate, op.up, op.down].map(|weight| self.matrix(weight)),
                    op.activation,
                    &mut out,
                );
                self.put(op.out, &out);
            }
            Op::SelectRows(op) => {
                let mut out = self.get(op.out);
                let columns = self.columns(op.x);
                ops::select_rows::reference(&self.get(op.x), columns, &self.step.outputs, &mut out);
                self.put(op.out, &out);
            }
        }
    }

    fn matmul(&mut self, op: &MatMul) {
        let mut out = match op.residual {
            Some(residual) => self.get(residual),
            None => self.sum(op.out, false),
        };
        let bias = op.bias.map(|bias| self.vector(bias));
        ops::matmul::reference(
            &self.get(op.x),
            self.matrix(op.weight),
            bias.as_deref(),
            op.scale,
            op.activation,
            &mut out,
        );
        self.put(op.out, &out);
    }

    fn rotary_store(&mut self, op: &RotaryStore) {
        let (mut q, mut k, v) = (self.get(op.q), self.get(op.k), self.get(op.v));
        let cache = self.allocation.cache;
        let (width, head_dim) = (cache.width(), cache.head_dim);
        for row in 0..self.step.tokens.len() {
            let (slot, position) = (self.step.slots[row], self.step.positions[row]);
            let q_row = &mut q[row * op.heads * head_dim..][..op.heads * head_dim];
            let k_row = &mut k[row * width..][..width];
            if let Some(rotation) = op.rotation {
                let mut angles = vec![0.0; rotation.dims];
                let first = self.step.angles.get(slot as usize).copied().unwrap_or(0);
                let table = self.matrix(rotation.table);
                table.row((first + position) as usize, &mut angles);
                ops::rotary_store::reference(q_row, head_dim, &angles, rotation.pairing);
                ops::rotary_store::reference(k_row, head_dim, &angles, rotation.pairing);
            }
            let entry = self.entry(slot, position, width);
            let mut pools = self.executor.cache.borrow_mut();
            for (pool, new) in pools[op.layer]
                .iter_mut()
                .zip([&*k_row, &v[row * width..][..width]])
            {
                for (stored, &value) in pool[entry..][..width].iter_mut().zip(new) {
                    *stored = stored_as(cache.dtype, value);
                }
            }
        }
        self.put(op.q, &q);
    }

    fn attention(&mut self, op: &Attention) {
        let (q, mut out) = (self.get(op.q), self.get(op.out));
        let cache = self.allocation.cache;
        let columns = op.heads * cache.head_dim;
        {
            let pools = self.executor.cache.borrow();
            for row in 0..self.step.tokens.len() {
                let end = self.step.positions[row] + 1;
                let seen = op
                    .window
                    .map_or(end as usize, |window| window.min(end as usize))
                    as u32;
                let (slot, width) = (self.step.slots[row], cache.width());
                let entries = (end - seen..end).map(|at| self.entry(slot, at, width));
                let entries: Vec<usize> = entries.collect();
                let [keys, values] = [0, 1].map(|i| {
                    entries
                        .iter()
                        .map(|&at| &pools[op.layer][i][at..][..width])
                        .collect::<Vec<_>>()
                });
                let q = &q[row * columns..][..columns];
                ops::attention::reference(
                    q,
                    &keys,
                    &values,
                    cache.head_dim,
                    op.scale,
                    op.cap,
                    &mut out[row * columns..][..columns],
                );
            }
        }
        self.put(op.out, &out);
    }

    fn short_conv(&mut self, op: &ShortConv) {
        let (x, mut out) = (self.get(op.x), self.get(op.out));
        let CacheSpec {
            conv_width: width,
            dtype,
            ..
        } = self.allocation.cache;
        let (weight, bias) = (
            self.vector(op.weight),
            op.bias.map(|bias| self.vector(bias)),
        );
        {
            let step = self.step;
            let rows = || {
                step.slots
                    .iter()
                    .zip(&step.positions)
                    .zip(x.chunks(3 * width))
            };
            let mut pools = self.executor.convs.borrow_mut();
            let pool = &mut pools[op.layer];
            for ((&slot, &position), row) in rows() {
                let entry = &mut pool[self.entry(slot, position, width)..][..width];
                for (stored, value) in entry.iter_mut().zip(ops::short_conv::gated(row)) {
                    *stored = stored_as(dtype, value);
                }
            }
            for (((&slot, &position), row), out) in rows().zip(out.chunks_mut(width)) {
                let earlier = (0..position).rev().take(op.taps - 1);
                let earlier = earlier.map(|at| &pool[self.entry(slot, at, width)..][..width]);
                let earlier: Vec<&[f32]> = earlier.collect();
                ops::short_conv::reference(row, &earlier, &weight, bias.as_deref(), out);
            }
        }
        self.put(op.out, &out);
    }

    /// Where a position's entry begins in a pool whose entries have `width` values.
    fn entry(&self, slot: u32, position: u32, width: usize) -> usize {
        let cache = self.allocation.cache;
        let page = self.step.tables[slot as usize][position as usize / cache.page_size] as usize;
        (page * cache.page_size + position as usize % cache.page_size) * width
    }
}

/// What the cache gives back of `value`.
fn stored_as(dtype: CacheType, value: f32) -> f32 {
    match dtype {
        CacheType::F32 => value,
        CacheType::F16 => f16::from_f32(value).to_f32(),
    }
}
