//! The reference executor: every operation by its own textbook formula, one after another.
//!
//! It is the oracle for the GPU and runs anywhere, in memory close to the size of the file, because
//! weights stay in their blocks. It is slow on purpose: nothing here is clever.

mod pass;

use std::{
    cell::{Cell, RefCell},
    future::ready,
};

use self::pass::Pass;
use super::{
    Allocation, Counters, Executor, ExecutorInfo, LocalFuture, TapeId,
    host::{self, zeros},
};
use crate::{
    error::{Error, Result},
    ops::{BufferId, WeightId},
    tape::{Step, Tape},
    tensor::WeightSpec,
};

/// Runs tapes with the operations' reference implementations.
#[derive(Default)]
pub struct Reference {
    allocation: Option<Allocation>,
    weights: RefCell<Vec<Vec<u8>>>,
    tapes: Vec<host::Prepared>,
    /// Keys and values of each layer: `pages × page_size × width`.
    cache: RefCell<Vec<[Vec<f32>; 2]>>,
    /// What positions left in each layer that convolves: `pages × page_size × conv_width`.
    convs: RefCell<Vec<Vec<f32>>>,
    counters: Cell<Counters>,
}

impl Executor for Reference {
    fn info(&self) -> ExecutorInfo {
        ExecutorInfo {
            device: "cpu",
            adapter: "reference (one thread, sums in f64)".into(),
            software: true,
            threads: None,
            notes: Vec::new(),
        }
    }

    fn allocate(&mut self, allocation: Allocation) -> LocalFuture<'_, Result<()>> {
        let cache = &allocation.cache;
        let positions = cache.pages * cache.page_size;
        let values = positions * cache.width();
        let made = (|| {
            let pools = (0..cache.layers)
                .map(|_| Ok([zeros(values)?, zeros(values)?]))
                .collect::<Result<_>>()?;
            let convs = (0..cache.conv_layers)
                .map(|_| zeros(positions * cache.conv_width))
                .collect::<Result<_>>()?;
            let weights = allocation
                .weights
                .iter()
                .map(|w| zeros(w.bytes()))
                .collect::<Result<_>>()?;
            Ok((pools, convs, weights))
        })();
        Box::pin(ready(made.map(|(pools, convs, weights)| {
            self.cache = RefCell::new(pools);
            self.convs = RefCell::new(convs);
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
        let prepared = self
            .allocation()
            .and_then(|allocation| host::prepare(tapes, allocation));
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
        let copy = |pool: &mut Vec<f32>, width: usize| {
            let page = cache.page_size * width;
            let from = from as usize * page;
            pool.copy_within(from..from + page, to as usize * page);
        };
        let mut pools = self.cache.borrow_mut();
        let pools = pools.iter_mut().flatten();
        pools.for_each(|pool| copy(pool, cache.width()));
        let mut convs = self.convs.borrow_mut();
        convs
            .iter_mut()
            .for_each(|pool| copy(pool, cache.conv_width));
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
        host::check(step, tape, allocation)?;
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
