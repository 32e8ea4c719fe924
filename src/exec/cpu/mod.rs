//! The CPU executor: the same tapes with vector instructions, natively and as WebAssembly.
//!
//! Weights stay in the blocks of their format, eight rows side by side ([`formats`]). Linear layers multiply
//! them octet by octet with all rows of a step ([`product`]), as integers where weights are quantised: then
//! activations are, too, see [`Activations`].
//!
//! To add a weight format, give it a layout in `formats`, with [`Quants`](formats::Quants) of its own if no other
//! format's fit, and an arm in `Weight::panel` and `product::multiply`. A new operation is an arm of `Pass::run`, at
//! first its reference on the pass's buffers.

mod attention;
mod cache;
#[cfg(not(target_arch = "wasm32"))]
mod ceilings;
mod experts;
mod formats;
mod math;
mod norm;
mod pass;
mod product;
mod quantised;
mod short_conv;
mod simd;
mod weight;

use std::{
    cell::{Cell, RefCell},
    future::ready,
};

use cache::Layer;
use pass::{Pass, Scratch};
use short_conv::Past;
use web_time::Instant;
use weight::Weight;

use super::{Allocation, Counters, Executor, ExecutorInfo, LocalFuture, Profile, TapeId, host};
use crate::{
    error::{Error, Result},
    ops::{BufferId, WeightId},
    tape::{Step, Tape},
};

/// How activations meet quantised weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Activations {
    /// Quantised to 8 bits, in blocks of 32 with a scale, where that is faster: for weights in Q4_0, Q4_1 and Q4_K;
    /// others meet 16 bits. The 8 bits lose something whatever computes them: an emulation in PyTorch, on the input
    /// of every linear layer, has the same errors (the logits of SmolLM2 135M off by 0.12, 0.12 and 0.37 in the
    /// root mean square after three prompts) and the same wrong text.
    Q8,
    /// Quantised to 16 bits, in blocks of 32 with a scale: an error 256 times smaller.
    #[default]
    Q16,
    /// As they are: weights are turned into numbers, which takes several times longer.
    F32,
}

/// Runs tapes on the CPU, in the thread that calls.
#[derive(Default)]
pub struct Cpu {
    activations: Activations,
    allocation: Option<Allocation>,
    weights: RefCell<Vec<Weight>>,
    tapes: Vec<host::Prepared>,
    layers: RefCell<Vec<Layer>>,
    pasts: RefCell<Vec<Past>>,
    scratch: RefCell<Scratch>,
    counters: Cell<Counters>,
    profile: RefCell<Option<Profile>>,
}

impl Executor for Cpu {
    fn info(&self) -> ExecutorInfo {
        let activations = match self.activations {
            Activations::Q8 => {
                "activations of 8 bits for weights in Q4_0, Q4_1 and Q4_K, of 16 for others that are quantised"
            }
            Activations::Q16 => "activations of 16 bits where weights are quantised",
            Activations::F32 => "activations in f32",
        };
        ExecutorInfo {
            device: "cpu",
            adapter: format!("CPU, one thread, {}", simd::NAME),
            software: true,
            notes: vec![activations.into()],
        }
    }

    fn allocate(&mut self, allocation: Allocation) -> LocalFuture<'_, Result<()>> {
        let weights = allocation.weights.iter().cloned().map(Weight::new);
        let layers = (0..allocation.cache.layers).map(|_| Layer::new(allocation.cache));
        let pasts = (0..allocation.cache.conv_layers).map(|_| Past::new(allocation.cache));
        let made = (|| {
            let weights: Vec<_> = weights.collect::<Result<_>>()?;
            let layers: Vec<_> = layers.collect::<Result<_>>()?;
            Ok((weights, layers, pasts.collect::<Result<Vec<_>>>()?))
        })();
        Box::pin(ready(made.map(|(weights, layers, pasts)| {
            self.weights = RefCell::new(weights);
            self.layers = RefCell::new(layers);
            self.pasts = RefCell::new(pasts);
            self.allocation = Some(allocation);
        })))
    }

    fn write_weight(&self, weight: WeightId, first_block: usize, blocks: &[u8]) -> Result<()> {
        self.allocation()?;
        self.weights.borrow_mut()[weight.0].write(first_block, blocks)?;
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
        let len = rows * tape.buffers[buffer.0].columns;
        Box::pin(ready(Ok(buffers.borrow()[buffer.0][..len].to_vec())))
    }

    fn copy_page(&self, from: u32, to: u32) -> Result<()> {
        let (from, to) = (from as usize, to as usize);
        let mut layers = self.layers.borrow_mut();
        layers
            .iter_mut()
            .for_each(|layer| layer.copy_page(from, to));
        let mut pasts = self.pasts.borrow_mut();
        pasts.iter_mut().for_each(|past| past.copy_page(from, to));
        Ok(())
    }

    fn profiles(&self) -> bool {
        true
    }

    fn set_profile(&self, profile: Option<Profile>) {
        self.profile.replace(profile);
    }

    fn counters(&self) -> Counters {
        self.counters.get()
    }
}

impl Cpu {
    /// An executor with nothing in it.
    pub fn new(activations: Activations) -> Self {
        Self {
            activations,
            ..Self::default()
        }
    }

    fn allocation(&self) -> Result<&Allocation> {
        self.allocation
            .as_ref()
            .ok_or_else(|| Error::internal("the executor was used before it was allocated"))
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
        let mut pass = Pass {
            tape,
            step,
            cache: &allocation.cache,
            weights: &self.weights.borrow(),
            layers: &mut self.layers.borrow_mut(),
            pasts: &mut self.pasts.borrow_mut(),
            buffers: &mut buffers.borrow_mut(),
            scratch: &mut self.scratch.borrow_mut(),
            activations: self.activations,
        };
        match &*self.profile.borrow() {
            None => tape.ops.iter().for_each(|op| pass.run(op)),
            Some(profile) => {
                for op in &tape.ops {
                    let start = Instant::now();
                    pass.run(op);
                    profile.add(op.name(), start.elapsed().as_secs_f64() * 1e3);
                }
            }
        }
        let logits = pass.get(tape.logits).to_vec();
        self.count(|counters| counters.forwards += 1);
        Ok(logits)
    }
}
