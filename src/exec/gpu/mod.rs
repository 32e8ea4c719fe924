//! The WebGPU executor: the only files that name wgpu.
//!
//! [`Gpu`] keeps weights in the layout of [`crate::tensor::repack`], dequantises them inside the
//! kernels, and keeps the key-value cache on the device. In reading order: [`kernels`] lists every
//! shader; `lower` maps operations to kernels; `placement` splits weights over buffers; `store` holds
//! weights and cache; `prepared` holds what a tape needs, made once; `sampling` chooses tokens after a step and
//! `run` joins such steps; `readback` brings results back.
//!
//! A step writes one small buffer, a run a few words a row beside it, and each submits once. Neither makes a
//! buffer, a pipeline or a bind group.

mod binder;
#[cfg(not(target_arch = "wasm32"))]
mod ceilings;
mod clock;
mod device;
mod dispatch;
mod forms;
mod fused_kernels;
mod kernels;
mod lower;
mod matmul_forms;
mod matmul_kernels;
mod memory;
mod params;
mod pipelines;
mod placement;
mod prepared;
mod readback;
mod run;
mod sample_kernels;
mod sample_words;
mod sampling;
mod store;
mod stripes;
#[cfg(not(target_arch = "wasm32"))]
mod subgroup_kernels;
mod tune;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

pub use device::{Forms, GpuOptions};
pub use kernels::{Binding, ENTRY, Kernel, kernels};
pub use params::Scalar;
pub use placement::{Part, Place, Placed, Placement};

use self::{
    binder::Binder,
    clock::{Recorder, Ticks},
    device::Device,
    dispatch::stride,
    memory::Budget,
    pipelines::Pipelines,
    prepared::{Means, Prepared, shared_step},
    readback::Staging,
    sampling::Sampling,
    store::Store,
    tune::Tuner,
};
use super::{
    Allocation, Counters, Executor, ExecutorInfo, LocalFuture, Profile, TapeId,
    sample::{Pick, Run},
};
use crate::{
    error::{Error, Result},
    ops::{BufferId, WeightId},
    tape::{Step, Tape},
};

/// Runs tapes on WebGPU. Dropping it frees everything on the device at once.
pub struct Gpu {
    sampling: Option<Sampling>,
    epoch: Cell<u64>,
    /// How many tokens the last step chose and left for a run that resumes it.
    chosen: Cell<usize>,
    tapes: Vec<Prepared>,
    pipelines: Pipelines,
    tuner: Tuner,
    separate: bool,
    store: Option<Store>,
    budget: Budget,
    counters: Rc<Cell<Counters>>,
    profile: RefCell<Option<Profile>>,
    device: Device,
}

impl Gpu {
    /// Opens the fastest adapter. `Unsupported` where there is none that can run the kernels.
    pub async fn new(options: GpuOptions) -> Result<Self> {
        Ok(Self {
            sampling: None,
            epoch: Cell::new(0),
            chosen: Cell::new(0),
            tapes: Vec::new(),
            pipelines: Pipelines::default(),
            tuner: Tuner::new(options.forms),
            separate: options.separate,
            store: None,
            budget: Budget::new(options.memory_limit),
            counters: Rc::default(),
            profile: RefCell::default(),
            device: Device::open(&options).await?,
        })
    }

    /// Bytes of all buffers on the device.
    pub fn allocated_bytes(&self) -> u64 {
        self.budget.used()
    }

    /// Ends the device as a driver that crashes would. For tests of what follows.
    pub fn lose_device(&self) {
        self.device.device.destroy();
        self.device.health.lose("on purpose");
    }

    fn store(&self) -> Result<&Store> {
        self.store
            .as_ref()
            .ok_or_else(|| Error::internal("the executor was used before it was allocated"))
    }

    fn prepared(&self, tape: TapeId) -> Result<&Prepared> {
        self.tapes
            .get(tape.0)
            .ok_or_else(|| Error::internal(format!("there is no tape {}", tape.0)))
    }

    fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    fn submit(&self, encoder: wgpu::CommandEncoder) -> wgpu::SubmissionIndex {
        self.count(|counters| counters.submits += 1);
        self.device.queue.submit([encoder.finish()])
    }

    fn encoder(&self) -> wgpu::CommandEncoder {
        self.device
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }

    /// Hands the step to the device; the result waits for its logits.
    fn start(&self, tape: TapeId, step: &Step) -> Result<LocalFuture<'_, Result<Vec<f32>>>> {
        self.device.health.check()?;
        let prepared = self.prepared(tape)?;
        let page_size = self.store()?.allocation.cache.page_size;
        step.check(&prepared.tape, &prepared.layout, page_size)?;
        self.epoch.set(self.epoch.get() + 1);
        self.chosen.set(0);
        let uploaded = prepared.upload(&self.device, step, false);
        let mut encoder = self.encoder();
        let (dispatches, ticks) = {
            let mut recorder = self.recorder(&mut encoder);
            prepared.record(&self.device, &mut recorder, step);
            recorder.finish(&self.device, &self.budget)?
        };
        self.count(|counters| {
            counters.forwards += 1;
            counters.bytes_uploaded += uploaded;
            counters.dispatches += dispatches;
        });
        let rows = step.outputs.len();
        if rows == 0 {
            let submission = self.submit(encoder);
            return Ok(match ticks {
                None => Box::pin(std::future::ready(Ok(Vec::new()))),
                Some(mut ticks) => {
                    ticks.map(&self.device);
                    let device = self.device.handle();
                    Box::pin(async move {
                        ticks.read(&device, submission).await?;
                        Ok(Vec::new())
                    })
                }
            });
        }
        let (staging, logits) = (&prepared.staging, prepared.tape.logits);
        self.read_back(encoder, prepared, staging, logits, rows, ticks)
    }

    /// What records dispatches, for the profile that is set.
    fn recorder<'a>(&self, encoder: &'a mut wgpu::CommandEncoder) -> Recorder<'a> {
        Recorder::new(encoder, self.profile.borrow().clone())
    }

    /// Submits `encoder` with a copy of `rows` rows of an activation, and with `ticks`.
    fn read_back(
        &self,
        mut encoder: wgpu::CommandEncoder,
        prepared: &Prepared,
        staging: &Staging,
        buffer: BufferId,
        rows: usize,
        mut ticks: Option<Ticks>,
    ) -> Result<LocalFuture<'_, Result<Vec<f32>>>> {
        let columns = prepared.tape.buffers[buffer.0].columns;
        let bytes = (rows * stride(columns) * 4) as u64;
        let mut loan = staging.take(&self.device)?;
        encoder.copy_buffer_to_buffer(
            &prepared.buffers.activations[buffer.0],
            0,
            loan.buffer(),
            0,
            bytes,
        );
        let submission = self.submit(encoder);
        loan.map(&self.device, bytes);
        if let Some(ticks) = &mut ticks {
            ticks.map(&self.device);
        }
        Ok(Box::pin(async move {
            let take = |bytes: &[u8]| unpad(bytes, columns);
            let device = self.device.handle();
            let read = loan.read(&device, submission.clone(), bytes, take);
            let values = read.await?;
            if let Some(ticks) = ticks {
                ticks.read(&device, submission).await?;
            }
            self.count(|counters| counters.bytes_read += bytes);
            Ok(values)
        }))
    }
}

impl Executor for Gpu {
    fn info(&self) -> ExecutorInfo {
        ExecutorInfo {
            device: "webgpu",
            adapter: self.device.name.clone(),
            software: self.device.adapter.software,
            threads: None,
            notes: self.tuner.notes(),
        }
    }

    fn allocate(&mut self, allocation: Allocation) -> LocalFuture<'_, Result<()>> {
        Box::pin(async {
            self.sampling = None;
            self.tapes.clear();
            self.store = None;
            self.store = Some(Store::new(&self.device, &self.budget, allocation).await?);
            Ok(())
        })
    }

    fn write_weight(&self, weight: WeightId, first_block: usize, blocks: &[u8]) -> Result<()> {
        self.device.health.check()?;
        let sent = self
            .store()?
            .write(&self.device, weight, first_block, blocks)?;
        self.count(|counters| counters.bytes_uploaded += sent);
        Ok(())
    }

    fn prepare(&mut self, tapes: Vec<Tape>) -> LocalFuture<'_, Result<()>> {
        Box::pin(async {
            self.sampling = None;
            self.tapes.clear();
            self.store()?.check_written()?;
            let rows = tapes.iter().map(|tape| tape.max_rows).max().unwrap_or(0);
            let (layout, step) =
                shared_step(&self.device, &self.budget, self.store()?, rows).await?;
            let mut prepared = Vec::with_capacity(tapes.len());
            for tape in tapes {
                let store = self.store()?;
                let means = Means {
                    device: &self.device,
                    budget: &self.budget,
                    store,
                    pipelines: &self.pipelines,
                    tuner: &self.tuner,
                };
                prepared
                    .push(Prepared::new(means, tape, layout, step.clone(), !self.separate).await?);
            }
            self.tapes = prepared;
            Ok(())
        })
    }

    fn forward(&self, tape: TapeId, step: &Step) -> LocalFuture<'_, Result<Vec<f32>>> {
        self.start(tape, step)
            .unwrap_or_else(|error| Box::pin(std::future::ready(Err(error))))
    }

    fn read(
        &self,
        tape: TapeId,
        buffer: BufferId,
        rows: usize,
    ) -> LocalFuture<'_, Result<Vec<f32>>> {
        Box::pin(async move {
            let prepared = self.prepared(tape)?;
            prepared.check_written(buffer, rows)?;
            if rows == 0 {
                return Ok(Vec::new());
            }
            let bytes = (rows * stride(prepared.tape.buffers[buffer.0].columns) * 4) as u64;
            let staging = Staging::new(&self.device, &self.budget, bytes, 1).await?;
            self.read_back(self.encoder(), prepared, &staging, buffer, rows, None)?
                .await
        })
    }

    fn copy_page(&self, from: u32, to: u32) -> Result<()> {
        self.device.health.check()?;
        let mut encoder = self.encoder();
        self.store()?.copy_page(&mut encoder, from, to);
        self.submit(encoder);
        Ok(())
    }

    fn prepare_sampling(&mut self) -> LocalFuture<'_, Result<()>> {
        Box::pin(async {
            let Some(first) = self.tapes.first() else {
                return Ok(());
            };
            let binder = Binder {
                device: &self.device,
                store: self.store()?,
                pipelines: &self.pipelines,
                buffers: &first.buffers,
                sampling: None,
            };
            let made = Sampling::new(binder, &self.budget, &self.tapes).await?;
            self.sampling = Some(made);
            self.chosen.set(0);
            Ok(())
        })
    }

    fn samples(&self) -> bool {
        self.sampling.is_some()
    }

    fn sample(
        &self,
        tape: TapeId,
        step: &Step,
        run: &Run,
    ) -> LocalFuture<'static, Result<Vec<Pick>>> {
        self.start_run(tape, step, run)
            .unwrap_or_else(|error| Box::pin(std::future::ready(Err(error))))
    }

    fn profiles(&self) -> bool {
        self.device.timestamps
    }

    fn set_profile(&self, profile: Option<Profile>) {
        self.profile.replace(profile);
    }

    fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    fn counters(&self) -> Counters {
        self.counters.get()
    }
}

/// The values of rows that stand at multiples of the stride.
fn unpad(bytes: &[u8], columns: usize) -> Vec<f32> {
    let rows = bytes.chunks_exact(stride(columns) * 4);
    rows.flat_map(|row| bytemuck::pod_collect_to_vec::<u8, f32>(&row[..columns * 4]))
        .collect()
}
