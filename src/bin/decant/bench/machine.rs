//! An executor that is measured: given random weights, and timed.

use std::time::Instant;

use decant::{
    exec::{
        Activations, Allocation, Ceilings, Cpu, Executor, TapeId,
        gpu::{Gpu, GpuOptions},
        sample::{Row, Run, Sampler},
    },
    ops::{BufferId, WeightId},
    tape::{Step, Tape},
    tensor::WeightSpec,
};
use pollster::block_on;

use crate::Outcome;

/// Who is measured.
pub enum Machine {
    Gpu(Box<Gpu>),
    Cpu(Box<Cpu>),
}

/// A run goes on for at least this long, so that the clock does not matter.
const ENOUGH_SECONDS: f64 = 0.05;
/// Runs of which the best counts: whatever else a machine does only slows it down.
const RUNS: usize = 3;
/// Bytes written at once.
const PIECE: usize = 1 << 20;

impl Machine {
    pub fn gpu() -> Outcome<Self> {
        let gpu = block_on(Gpu::new(GpuOptions::default()))?;
        Ok(Self::Gpu(Box::new(gpu)))
    }

    pub fn cpu(activations: Activations) -> Self {
        Self::Cpu(Box::new(Cpu::new(activations)))
    }

    pub fn executor(&mut self) -> &mut dyn Executor {
        match self {
            Self::Gpu(gpu) => &mut **gpu,
            Self::Cpu(cpu) => &mut **cpu,
        }
    }

    pub fn ceilings(&self) -> Outcome<Ceilings> {
        Ok(match self {
            Self::Gpu(gpu) => block_on(gpu.ceilings())?,
            Self::Cpu(_) => Cpu::ceilings(),
        })
    }

    /// Makes room, fills it with random weights, and prepares `tapes`.
    pub fn load(&mut self, allocation: Allocation, tapes: Vec<Tape>) -> Outcome<()> {
        let executor = self.executor();
        let specs = allocation.weights.clone();
        block_on(executor.allocate(allocation))?;
        let noise = noise();
        for (i, spec) in specs.iter().enumerate() {
            fill(executor, WeightId(i), spec, &noise)?;
        }
        Ok(block_on(executor.prepare(tapes))?)
    }

    /// Seconds of one step of `tape`; `out` is a buffer that it writes.
    pub fn seconds(&mut self, tape: TapeId, step: &Step, out: BufferId) -> Outcome<f64> {
        let executor = self.executor();
        best(|times| {
            for _ in 0..times {
                block_on(executor.forward(tape, step))?;
            }
            // What was handed over is done when something that it wrote can be read.
            block_on(executor.read(tape, out, 1))?;
            Ok(())
        })
    }

    /// Seconds of one step in which each of `step`'s rows goes on by a token, chosen greedily where the
    /// executor chooses.
    pub fn decode_seconds(&mut self, tape: TapeId, step: &Step) -> Outcome<f64> {
        /// Steps of a run, and runs in flight, as while text is generated.
        const STEPS: usize = 4;
        let executor = self.executor();
        if !executor.samples() {
            return best(|times| {
                for _ in 0..times {
                    block_on(executor.forward(tape, step))?;
                }
                Ok(())
            });
        }
        let sampler = Sampler {
            edits: Vec::new(),
            top_k: 0,
            removable: None,
            min_p: 0.0,
            typical: 0.0,
            epsilon: 0.0,
            eta: 0.0,
            seed: None,
            best: 0,
            search: false,
        };
        let row = |sequence| Row {
            sequence,
            ids: &[],
            prompt_length: 0,
            new_tokens: 0,
            limit: usize::MAX,
        };
        let rows: Vec<_> = (0..step.outputs.len() as u32).map(row).collect();
        let run = Run {
            sampler: &sampler,
            rows: &rows,
            steps: STEPS,
            resume: false,
        };
        let seconds = best(|times| {
            let mut flying = Vec::new();
            for _ in 0..times {
                flying.push(executor.sample(tape, step, &run));
                if flying.len() == 2 {
                    block_on(flying.remove(0))?;
                }
            }
            for flight in flying {
                block_on(flight)?;
            }
            Ok(())
        })?;
        Ok(seconds / STEPS as f64)
    }
}

/// Seconds of one of what `run` does as often as it is told, the best of several.
fn best(mut run: impl FnMut(usize) -> Outcome<()>) -> Outcome<f64> {
    let mut timed = |times: usize| -> Outcome<f64> {
        let start = Instant::now();
        run(times)?;
        Ok(start.elapsed().as_secs_f64() / times as f64)
    };
    timed(1)?;
    let once = timed(1)?;
    let times = ((ENOUGH_SECONDS / once) as usize).clamp(1, 1000);
    let mut best = once;
    for _ in 0..RUNS {
        best = best.min(timed(times)?);
    }
    Ok(best)
}

/// Random bytes from 32 to 63: in these any format's scales and numbers are normal and below 2, so that no
/// sum overflows or is slow.
fn noise() -> Vec<u8> {
    let mut state = 1u32;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        32 + (state >> 27) as u8
    };
    (0..PIECE).map(|_| byte()).collect()
}

fn fill(executor: &dyn Executor, weight: WeightId, spec: &WeightSpec, noise: &[u8]) -> Outcome<()> {
    let block = spec.dtype.block_bytes();
    // Whole pairs of blocks.
    let most = noise.len() / (2 * block) * 2;
    let mut first = 0;
    while first < spec.blocks() {
        let count = most.min(spec.blocks() - first);
        executor.write_weight(weight, first, &noise[..count * block])?;
        first += count;
    }
    Ok(())
}
