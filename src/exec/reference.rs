//! The reference executor: every operation by its own textbook formula, one after another.
//!
//! It is the oracle for the GPU and runs anywhere, in memory close to the size of the file, because
//! weights stay in their blocks. It is slow on purpose: nothing here is clever.

use std::{
    cell::{Cell, RefCell},
    future::ready,
};

use half::f16;

use super::{Allocation, Counters, Executor, ExecutorInfo, LocalFuture, TapeId};
use crate::{
    error::{Error, Result},
    ops::{self, Attention, BufferId, CacheType, Lookup, MatMul, Op, RotaryStore, Rows, WeightId},
    tape::{Step, StepLayout, Tape},
    tensor::{Matrix, WeightSpec},
};

/// Runs tapes with the operations' reference implementations.
#[derive(Default)]
pub struct Reference {
    allocation: Option<Allocation>,
    weights: RefCell<Vec<Vec<u8>>>,
    tapes: Vec<(Tape, RefCell<Vec<Vec<f32>>>)>,
    /// Keys and values of each layer: `pages × page_size × width`.
    cache: RefCell<Vec<[Vec<f32>; 2]>>,
    counters: Cell<Counters>,
}

impl Executor for Reference {
    fn info(&self) -> ExecutorInfo {
        ExecutorInfo {
            device: "cpu",
            adapter: "reference (one thread, sums in f64)".into(),
            software: true,
            notes: Vec::new(),
        }
    }

    fn allocate(&mut self, allocation: Allocation) -> LocalFuture<'_, Result<()>> {
        let cache = &allocation.cache;
        let values = cache.pages * cache.page_size * cache.width();
        let made = (|| {
            let pools = (0..cache.layers)
                .map(|_| Ok([zeros(values)?, zeros(values)?]))
                .collect::<Result<_>>()?;
            let weights = allocation
                .weights
                .iter()
                .map(|w| zeros(w.bytes()))
                .collect::<Result<_>>()?;
            Ok((pools, weights))
        })();
        Box::pin(ready(made.map(|(pools, weights)| {
            self.cache = RefCell::new(pools);
            self.weights = RefCell::new(weights);
            self.allocation = Some(allocation);
        })))
    }

    fn write_weight(&self, weight: WeightId, first_block: usize, blocks: &[u8]) -> Result<()> {
        let spec = self.spec(weight)?;
        let start = first_block * spec.dtype.block_bytes();
        let mut weights = self.weights.borrow_mut();
        let target = weights[weight.0].get_mut(start..start + blocks.len());
        target
            .ok_or_else(|| Error::weights(&spec.name, "more data than the tensor holds"))?
            .copy_from_slice(blocks);
        self.count(|counters| counters.bytes_uploaded += blocks.len() as u64);
        Ok(())
    }

    fn prepare(&mut self, tapes: Vec<Tape>) -> LocalFuture<'_, Result<()>> {
        let prepared = tapes.into_iter().map(|tape| {
            let allocation = self.allocation()?;
            tape.check(&allocation.weights, &allocation.cache)?;
            let sizes = tape
                .buffers
                .iter()
                .enumerate()
                .map(|(i, spec)| tape.rows(BufferId(i)) * spec.columns);
            let buffers = sizes.map(zeros).collect::<Result<Vec<_>>>()?;
            Ok((tape, RefCell::new(buffers)))
        });
        let prepared = prepared.collect::<Result<Vec<_>>>();
        Box::pin(ready(prepared.map(|tapes| self.tapes = tapes)))
    }

    fn forward(&self, tape: TapeId, step: &Step) -> LocalFuture<'_, Result<Vec<f32>>> {
        Box::pin(ready(self.run(tape, step)))
    }

    fn read(
        &self,
        tape: TapeId,
        buffer: BufferId,
        rows: usize,
    ) -> LocalFuture<'_, Result<Vec<f32>>> {
        let (tape, buffers) = &self.tapes[tape.0];
        Box::pin(ready(Ok(buffers.borrow()[buffer.0]
            [..rows * tape.buffers[buffer.0].columns]
            .to_vec())))
    }

    fn copy_page(&self, from: u32, to: u32) -> Result<()> {
        let cache = self.allocation()?.cache;
        let page = cache.page_size * cache.width();
        for pool in self.cache.borrow_mut().iter_mut().flatten() {
            pool.copy_within(
                from as usize * page..(from as usize + 1) * page,
                to as usize * page,
            );
        }
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.counters.get()
    }
}

impl Reference {
    /// An executor with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    fn allocation(&self) -> Result<&Allocation> {
        self.allocation
            .as_ref()
            .ok_or_else(|| Error::internal("the executor was used before it was allocated"))
    }

    fn spec(&self, weight: WeightId) -> Result<&WeightSpec> {
        Ok(&self.allocation()?.weights[weight.0])
    }

    fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    fn run(&self, tape: TapeId, step: &Step) -> Result<Vec<f32>> {
        let (tape, buffers) = &self.tapes[tape.0];
        let allocation = self.allocation()?;
        let layout = StepLayout {
            rows: tape.max_rows,
            sequences: allocation.sequences,
            pages: allocation.pages_per_sequence,
        };
        step.check(tape, &layout, allocation.cache.page_size)?;
        let mut buffers = buffers.borrow_mut();
        let mut pass = Pass {
            executor: self,
            tape,
            step,
            allocation,
            weights: &self.weights.borrow(),
            buffers: &mut buffers,
        };
        tape.ops.iter().for_each(|op| pass.run(op));
        let logits = pass.rows(tape.logits) * tape.buffers[tape.logits.0].columns;
        let logits = pass.buffers[tape.logits.0][..logits].to_vec();
        self.count(|counters| counters.forwards += 1);
        Ok(logits)
    }
}

/// One step of one tape.
struct Pass<'a> {
    executor: &'a Reference,
    tape: &'a Tape,
    step: &'a Step,
    allocation: &'a Allocation,
    weights: &'a [Vec<u8>],
    buffers: &'a mut [Vec<f32>],
}

impl Pass<'_> {
    fn rows(&self, buffer: BufferId) -> usize {
        match self.tape.buffers[buffer.0].rows {
            Rows::Tokens => self.step.tokens.len(),
            Rows::Outputs => self.step.outputs.len(),
        }
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
        self.buffers[buffer.0][..self.rows(buffer) * self.tape.buffers[buffer.0].columns].to_vec()
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

    fn run(&mut self, op: &Op) {
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
                    self.tape.buffers[op.x.0].columns / op.groups,
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
            Op::SelectRows(op) => {
                let mut out = self.get(op.out);
                let columns = self.tape.buffers[op.x.0].columns;
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
            let entry = self.entry(slot, position);
            let mut pools = self.executor.cache.borrow_mut();
            for (pool, new) in pools[op.layer]
                .iter_mut()
                .zip([&*k_row, &v[row * width..][..width]])
            {
                for (stored, &value) in pool[entry..][..width].iter_mut().zip(new) {
                    *stored = match cache.dtype {
                        CacheType::F32 => value,
                        CacheType::F16 => f16::from_f32(value).to_f32(),
                    };
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
                let entries = (end - seen..end).map(|at| self.entry(self.step.slots[row], at));
                let entries: Vec<usize> = entries.collect();
                let [keys, values] = [0, 1].map(|i| {
                    entries
                        .iter()
                        .map(|&at| &pools[op.layer][i][at..][..cache.width()])
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

    /// Where a position's entry begins in its layer's pools.
    fn entry(&self, slot: u32, position: u32) -> usize {
        let cache = self.allocation.cache;
        let page = self.step.tables[slot as usize][position as usize / cache.page_size] as usize;
        (page * cache.page_size + position as usize % cache.page_size) * cache.width()
    }
}

/// `len` zeros, or a typed error where memory runs out.
fn zeros<T: Clone + Default>(len: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| {
        let bytes = len * size_of::<T>();
        Error::new(
            crate::error::ErrorKind::OutOfMemory,
            format!("no memory for {bytes} bytes"),
        )
    })?;
    values.resize(len, T::default());
    Ok(values)
}
