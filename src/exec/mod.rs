//! Executors run tapes. This file is the door; behind it are the reference, the CPU and the GPU.
//!
//! An executor owns weights, cache and activations. It knows operations and tapes, and how a token is chosen
//! from scores ([`sample`]); it knows nothing of models, text or what a call is for.

#[cfg(not(target_arch = "wasm32"))]
mod ceilings;
pub mod cpu;
#[cfg(not(fuzzing))]
pub mod gpu;
mod host;
mod profile;
mod reference;
pub mod sample;

use std::{future::Future, pin::Pin};

#[cfg(not(target_arch = "wasm32"))]
pub use ceilings::Ceilings;
pub use cpu::{Activations, Cpu, Crew};
pub use profile::{KernelTime, Profile};
pub use reference::Reference;
use sample::{Pick, Run};

use crate::{
    error::{Error, Result},
    ops::{BufferId, CacheSpec, WeightId},
    tape::{Step, Tape},
    tensor::WeightSpec,
};

/// A future that stays on its thread: the web has only one.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A prepared tape: its place in the list given to [`Executor::prepare`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapeId(pub usize);

/// Everything an executor needs to know before the first weight arrives.
#[derive(Debug, Clone)]
pub struct Allocation {
    /// The model's weights, by [`WeightId`].
    pub weights: Vec<WeightSpec>,
    /// How threads may divide each of them, see [`Tape::groups`]; those past the end of the list stay whole.
    pub groups: Vec<usize>,
    /// The key-value cache.
    pub cache: CacheSpec,
    /// The most sequences in one step.
    pub sequences: usize,
    /// The most pages of one sequence.
    pub pages_per_sequence: usize,
}

/// Who runs the tapes, for `model.info`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorInfo {
    /// `"webgpu"` or `"cpu"`, as in the `device` option.
    pub device: &'static str,
    /// The adapter's own words, or the name of the executor.
    pub adapter: String,
    /// Whether the adapter is a program on the CPU.
    pub software: bool,
    /// The threads that compute, of an executor that has some.
    pub threads: Option<usize>,
    /// What tuning chose and why, a line each; for people.
    pub notes: Vec<String>,
}

/// What an executor has done since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Forward passes.
    pub forwards: u64,
    /// Kernel dispatches.
    pub dispatches: u64,
    /// Queue submissions.
    pub submits: u64,
    /// Bytes written to the device, weights included.
    pub bytes_uploaded: u64,
    /// Bytes read back.
    pub bytes_read: u64,
}

/// Runs tapes.
///
/// The order of calls: [`allocate`](Self::allocate) once, [`write_weight`](Self::write_weight) until
/// every block of every weight has been written, [`prepare`](Self::prepare) once, then
/// [`forward`](Self::forward) at will. Methods that run while text is generated take `&self`, so that
/// no exclusive borrow is held across an await.
pub trait Executor {
    /// Who this is.
    fn info(&self) -> ExecutorInfo;

    /// Makes room for weights and cache. Fails with `OutOfMemory` or `Unsupported` before any byte
    /// is uploaded, and frees what it made.
    fn allocate(&mut self, allocation: Allocation) -> LocalFuture<'_, Result<()>>;

    /// Writes whole blocks, as in a file, to `weight` from block `first_block` on, an even number.
    fn write_weight(&self, weight: WeightId, first_block: usize, blocks: &[u8]) -> Result<()>;

    /// Makes kernels and activations for `tapes`. Every weight has been written.
    fn prepare(&mut self, tapes: Vec<Tape>) -> LocalFuture<'_, Result<()>>;

    /// Runs one step. The work is handed to the device before this function returns; the future only
    /// waits for the logits, `step.outputs.len() × vocabulary`. Two steps may be in flight; they run
    /// in the order of the calls.
    fn forward(&self, tape: TapeId, step: &Step) -> LocalFuture<'_, Result<Vec<f32>>>;

    /// Reads `rows` rows of an activation as the last step left it. For tests and inspection.
    fn read(
        &self,
        tape: TapeId,
        buffer: BufferId,
        rows: usize,
    ) -> LocalFuture<'_, Result<Vec<f32>>>;

    /// Copies a page of every layer's pools, so that a sequence can write to its own copy.
    fn copy_page(&self, from: u32, to: u32) -> Result<()>;

    /// Makes what [`sample`](Self::sample) needs, after [`prepare`](Self::prepare), where this executor can
    /// choose tokens at all. Without it, or if it fails, everything else works.
    fn prepare_sampling(&mut self) -> LocalFuture<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Whether [`sample`](Self::sample) works.
    fn samples(&self) -> bool {
        false
    }

    /// Runs a step and the steps that follow from the tokens it leads to, and chooses all these tokens where
    /// the scores are. The work is handed to the device before this function returns; the future waits for
    /// the choices: for each step, one for each of `step.outputs`. The tables cover the positions of all
    /// steps. Two runs may be in flight.
    fn sample(
        &self,
        tape: TapeId,
        step: &Step,
        run: &Run,
    ) -> LocalFuture<'static, Result<Vec<Pick>>> {
        let _ = (tape, step, run);
        let error = Error::internal("this executor chooses no tokens");
        Box::pin(std::future::ready(Err(error)))
    }

    /// Whether [`set_profile`](Self::set_profile) has an effect: the device must have a clock.
    fn profiles(&self) -> bool {
        false
    }

    /// Adds the times of what is handed to the device from now on to `profile`, once somebody has waited for
    /// it; with `None` to nothing. Steps take longer with a profile than without.
    fn set_profile(&self, profile: Option<Profile>) {
        let _ = profile;
    }

    /// A number that changes with every step and run: while it is the same, a run may resume the one before.
    fn epoch(&self) -> u64 {
        0
    }

    /// What has been done so far.
    fn counters(&self) -> Counters;
}
