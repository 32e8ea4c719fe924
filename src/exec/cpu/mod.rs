//! The CPU executor: the same tapes with vector instructions, natively and as WebAssembly.
//!
//! Weights stay in the blocks of their format, eight rows side by side ([`formats`]). Linear layers multiply
//! them octet by octet with all rows of a step ([`product`]), as integers where weights are quantised: then
//! activations are, too, see [`Activations`].
//!
//! Several threads may run a tape together, each with its share of every matrix: see [`crew`].
//!
//! To add a weight format, give it a layout in `formats`, with [`Quants`](formats::Quants) of its own if no other
//! format's fit, and an arm in `Weight::panel` and `product::multiply`. A new operation is an arm of `Pass::run`, at
//! first its reference on the pass's buffers.

mod attention;
mod cache;
#[cfg(not(target_arch = "wasm32"))]
mod ceilings;
mod crew;
mod experts;
mod follow;
mod formats;
mod linear;
mod math;
mod norm;
mod pass;
mod product;
mod quantised;
mod rotary;
mod short_conv;
mod simd;
mod split;
mod weight;
mod wire;

use std::{
    cell::{Cell, RefCell},
    future::ready,
    iter::repeat,
};

use cache::Layer;
pub use crew::Crew;
use crew::{Alone, Share};
use pass::{Pass, Scratch};
use short_conv::Past;
use split::Exchanges;
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

/// Runs tapes on the CPU, in the thread that calls and in those of its [`Crew`].
pub struct Cpu {
    activations: Activations,
    crew: Box<dyn Crew>,
    share: Share,
    allocation: Option<Allocation>,
    weights: RefCell<Vec<Weight>>,
    tapes: Vec<(host::Prepared, Exchanges)>,
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
        let threads = match self.share.count {
            1 => "one thread".to_owned(),
            count => format!("{count} threads"),
        };
        ExecutorInfo {
            device: "cpu",
            adapter: format!("CPU, {threads}, {}", simd::NAME),
            software: true,
            threads: Some(self.share.count),
            notes: vec![activations.into()],
        }
    }

    fn allocate(&mut self, allocation: Allocation) -> LocalFuture<'_, Result<()>> {
        let told = self.tell_to_allocate(&allocation);
        let made = told.and_then(|()| {
            let made = self.make_room(allocation);
            self.agree(made)
        });
        Box::pin(ready(made))
    }

    fn write_weight(&self, weight: WeightId, first_block: usize, blocks: &[u8]) -> Result<()> {
        self.tell_to_write(weight, first_block, blocks)?;
        self.write(weight, first_block, blocks)
    }

    fn prepare(&mut self, tapes: Vec<Tape>) -> LocalFuture<'_, Result<()>> {
        let prepared = self.tell_to_prepare(&tapes).and_then(|()| {
            let prepared = self.make_ready(tapes);
            self.agree(prepared)
        });
        Box::pin(ready(prepared))
    }

    fn forward(&self, tape: TapeId, step: &Step) -> LocalFuture<'_, Result<Vec<f32>>> {
        // What does not fit is refused before the others begin.
        let result = self.check(tape, step).and_then(|()| {
            self.tell_to_run(tape, step)?;
            self.run(tape, step)
        });
        Box::pin(ready(result))
    }

    fn read(
        &self,
        tape: TapeId,
        buffer: BufferId,
        rows: usize,
    ) -> LocalFuture<'_, Result<Vec<f32>>> {
        let result = self.tell_to_read(tape, buffer, rows);
        let result = result.and_then(|()| self.values(tape, buffer, rows));
        Box::pin(ready(result))
    }

    fn copy_page(&self, from: u32, to: u32) -> Result<()> {
        self.tell_to_copy_page(from, to)?;
        self.copy(from, to);
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
    /// An executor with nothing in it, which uses one thread.
    pub fn new(activations: Activations) -> Self {
        Self::with_crew(activations, Box::new(Alone))
    }

    /// An executor with nothing in it, which leads `crew`: at the other ends [`follow`](Self::follow) must run.
    pub fn with_crew(activations: Activations, crew: Box<dyn Crew>) -> Self {
        Self {
            activations,
            share: Share::of(&*crew),
            crew,
            allocation: None,
            weights: RefCell::default(),
            tapes: Vec::new(),
            layers: RefCell::default(),
            pasts: RefCell::default(),
            scratch: RefCell::default(),
            counters: Cell::default(),
            profile: RefCell::default(),
        }
    }

    fn make_room(&mut self, allocation: Allocation) -> Result<()> {
        let groups = allocation.groups.iter().copied().chain(repeat(0));
        let weights = allocation.weights.iter().zip(groups);
        let weights = weights.map(|(spec, groups)| Weight::new(spec.clone(), groups, self.share));
        let weights = weights.collect::<Result<Vec<_>>>()?;
        let heads = self.share.kv_heads(allocation.cache.kv_heads);
        let layers = (0..allocation.cache.layers)
            .map(|_| Layer::new(allocation.cache, heads.clone()))
            .collect::<Result<Vec<_>>>()?;
        self.weights = RefCell::new(weights);
        let pasts = (0..allocation.cache.conv_layers).map(|_| Past::new(allocation.cache));
        self.pasts = RefCell::new(pasts.collect::<Result<_>>()?);
        self.layers = RefCell::new(layers);
        self.allocation = Some(allocation);
        Ok(())
    }

    fn write(&self, weight: WeightId, first_block: usize, blocks: &[u8]) -> Result<()> {
        self.allocation()?;
        self.weights.borrow_mut()[weight.0].write(first_block, blocks)?;
        self.count(|counters| counters.bytes_uploaded += blocks.len() as u64);
        Ok(())
    }

    fn make_ready(&mut self, tapes: Vec<Tape>) -> Result<()> {
        let allocation = self.allocation()?;
        let head_dim = allocation.cache.head_dim;
        let exchanges = |tape: &Tape| match self.share.count {
            1 => Exchanges::none(tape),
            _ => Exchanges::new(tape, head_dim),
        };
        let prepared = host::prepare(tapes, allocation)?.into_iter();
        let prepared = prepared.map(|prepared| {
            let exchanges = exchanges(&prepared.0);
            (prepared, exchanges)
        });
        self.tapes = prepared.collect();
        Ok(())
    }

    fn copy(&self, from: u32, to: u32) {
        let (from, to) = (from as usize, to as usize);
        let mut layers = self.layers.borrow_mut();
        let layers = layers.iter_mut();
        layers.for_each(|layer| layer.copy_page(from, to));
        let mut pasts = self.pasts.borrow_mut();
        pasts.iter_mut().for_each(|past| past.copy_page(from, to));
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

    fn check(&self, tape: TapeId, step: &Step) -> Result<()> {
        host::check(step, &self.tapes[tape.0].0.0, self.allocation()?)
    }

    /// Lets `work` see a step's pass.
    fn pass<T>(
        &self,
        tape: TapeId,
        step: &Step,
        work: impl FnOnce(&mut Pass, &Exchanges) -> Result<T>,
    ) -> Result<T> {
        let ((tape, buffers), exchanges) = &self.tapes[tape.0];
        let mut pass = Pass {
            tape,
            step,
            cache: &self.allocation()?.cache,
            weights: &self.weights.borrow(),
            layers: &mut self.layers.borrow_mut(),
            pasts: &mut self.pasts.borrow_mut(),
            buffers: &mut buffers.borrow_mut(),
            scratch: &mut self.scratch.borrow_mut(),
            activations: self.activations,
            crew: &*self.crew,
            share: self.share,
        };
        work(&mut pass, exchanges)
    }

    /// Runs a step; the thread that leads gets the logits, others nothing.
    fn run(&self, tape: TapeId, step: &Step) -> Result<Vec<f32>> {
        let leads = self.share.index == 0;
        let profile = self.profile.borrow();
        let logits = self.pass(tape, step, |pass, exchanges| {
            for (op, divided) in pass.tape.ops.iter().zip(&exchanges.before) {
                let start = profile.as_ref().map(|_| Instant::now());
                if !divided.is_empty() {
                    pass.complete(divided, |pass, buffer| pass.rows(buffer), true)?;
                }
                pass.run(op)?;
                if let (Some(profile), Some(start)) = (&*profile, start) {
                    profile.add(op.name(), start.elapsed().as_secs_f64() * 1e3);
                }
            }
            let logits = pass.tape.logits;
            if let Some(divided) = exchanges.after(logits) {
                pass.complete(&[divided], |pass, buffer| pass.rows(buffer), leads)?;
            }
            Ok(if leads {
                pass.get(logits).to_vec()
            } else {
                Vec::new()
            })
        })?;
        self.count(|counters| counters.forwards += 1);
        Ok(logits)
    }

    /// Rows of a buffer as the last step left it; others than the thread that leads may only have parts.
    fn values(&self, tape: TapeId, buffer: BufferId, rows: usize) -> Result<Vec<f32>> {
        let leads = self.share.index == 0;
        self.pass(tape, &Step::default(), |pass, exchanges| {
            if let Some(divided) = exchanges.after(buffer) {
                pass.complete(&[divided], |_, _| rows, leads)?;
            }
            let len = rows * pass.tape.buffers[buffer.0].columns;
            Ok(pass.buffers[buffer.0][..len].to_vec())
        })
    }
}

impl Drop for Cpu {
    fn drop(&mut self) {
        self.tell_to_end();
    }
}
