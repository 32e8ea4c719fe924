//! The adapter's own ceilings, for `decant bench`; no part of the package for pages.
//!
//! Each measurement checks what its kernel computed: a compiler that sees through it would be found out.

use std::time::Instant;

use super::{
    Gpu,
    kernels::{Binding, Kernel, kernel, read, write},
    memory::Buffer,
    params::{MeasureMultiplyAddParams, MeasureReadParams, Params},
    pipelines::Variant,
    readback::Staging,
};
use crate::{
    error::{Error, Result},
    exec::ceilings::Ceilings,
};

const READ_BINDINGS: [Binding; 2] = [read(1), write(2)];
const MULTIPLY_ADD_BINDINGS: [Binding; 1] = [write(1)];

static MEASURE_READ: Kernel = kernel!(
    "measure_read",
    "",
    ["measure_read.wgsl"],
    MeasureReadParams,
    READ_BINDINGS,
    ["LANES", "NEIGHBOURS"]
);
static MEASURE_MULTIPLY_ADD: Kernel = kernel!(
    "measure_multiply_add",
    "",
    ["measure_multiply_add.wgsl"],
    MeasureMultiplyAddParams,
    MULTIPLY_ADD_BINDINGS,
    ["LANES"]
);

/// The kernels that measure.
pub(super) fn measuring_kernels() -> impl Iterator<Item = &'static Kernel> {
    [&MEASURE_READ, &MEASURE_MULTIPLY_ADD].into_iter()
}

/// Bytes that are read, where a binding holds as many.
const BYTES: u64 = 96 << 20;
/// Workgroups: enough for every core of any adapter.
const GROUPS: u32 = 1024;
/// Rounds of 96 multiply-adds.
const ROUNDS: u32 = 64;
/// Dispatches in a submission that is measured.
const TIMES: u32 = 4;
/// Dispatches that cost nothing but themselves.
const DISPATCHES: u32 = 512;
/// Runs of which the best counts.
const RUNS: usize = 7;

/// A kernel with everything bound.
struct Ready {
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    out: Buffer,
    staging: Staging,
    bytes: u64,
    _params: Buffer,
    _data: Option<Buffer>,
}

impl Gpu {
    /// Measures the adapter's ceilings, which takes about a second.
    ///
    /// # Errors
    /// `OutOfMemory` where there is no room for a buffer to read; `Internal` where the adapter computes
    /// something else than it should.
    pub async fn ceilings(&self) -> Result<Ceilings> {
        let lanes = [self.device.adapter.lanes as u32, 64];
        let mut ceilings = Ceilings {
            read: 0.0,
            multiply_add: 0.0,
            dispatch: f64::INFINITY,
            round_trip: f64::INFINITY,
        };
        for lanes in lanes {
            for neighbours in [true, false] {
                let rate = self.read_rate(lanes, neighbours).await?;
                ceilings.read = ceilings.read.max(rate);
            }
            let rate = self.multiply_add_rate(lanes).await?;
            ceilings.multiply_add = ceilings.multiply_add.max(rate);
            let (dispatch, round_trip) = self.costs(lanes).await?;
            ceilings.dispatch = ceilings.dispatch.min(dispatch);
            ceilings.round_trip = ceilings.round_trip.min(round_trip);
        }
        Ok(ceilings)
    }

    /// Bytes a second.
    async fn read_rate(&self, lanes: u32, neighbours: bool) -> Result<f64> {
        let unit = u64::from(GROUPS * lanes) * 8 * 16;
        let bytes = BYTES.min(self.device.binding_limit) / unit * unit;
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST;
        let (budget, device) = (&self.budget, &self.device);
        let mut made = budget.buffers(device, "data", usage, &[bytes]).await?;
        let data = made.pop();
        let data = data.ok_or_else(|| Error::internal("a buffer was asked for"))?;
        // Words that differ, so that no two strips have the same sum.
        let words: Vec<u32> = (0..bytes as u32 / 4).map(word).collect();
        let queue = &self.device.queue;
        queue.write_buffer(&data, 0, bytemuck::cast_slice(&words));
        let params = MeasureReadParams {
            quads: (bytes / 16) as u32,
        };
        let overrides = vec![
            ("LANES", f64::from(lanes)),
            ("NEIGHBOURS", f64::from(neighbours)),
        ];
        let kernel = &MEASURE_READ;
        let variant = Variant { kernel, overrides };
        let words_of = params.words();
        let ready = self.ready(variant, words_of, Some(data), lanes).await?;
        let (seconds, sums) = self.seconds(&ready, GROUPS, TIMES).await?;
        let found = sums.iter().fold(0u32, |sum, &x| sum.wrapping_add(x));
        let expected = words.iter().fold(0u32, |sum, &x| sum.wrapping_add(x));
        if found != expected {
            return Err(wrong("measure_read", found, expected));
        }
        Ok(bytes as f64 * f64::from(TIMES) / seconds)
    }

    /// Multiply-adds a second.
    async fn multiply_add_rate(&self, lanes: u32) -> Result<f64> {
        let (factor, addend) = (0.5, 1.0);
        let ready = self.multiply_add(lanes, ROUNDS, factor, addend).await?;
        let (seconds, sums) = self.seconds(&ready, GROUPS, TIMES).await?;
        // Every chain ends at addend / (1 − factor) = 2.
        let wrong_one = sums.iter().find(|&&x| f32::from_bits(x) != 24.0);
        if let Some(&found) = wrong_one {
            return Err(wrong("measure_multiply_add", f32::from_bits(found), 24.0));
        }
        let each = f64::from(ROUNDS) * 96.0;
        Ok(each * f64::from(GROUPS * lanes) * f64::from(TIMES) / seconds)
    }

    /// Seconds of a dispatch and of a round trip.
    async fn costs(&self, lanes: u32) -> Result<(f64, f64)> {
        let ready = self.multiply_add(lanes, 0, 0.5, 1.0).await?;
        let (one, _) = self.seconds(&ready, 1, 1).await?;
        let (many, _) = self.seconds(&ready, 1, DISPATCHES).await?;
        Ok(((many - one).max(0.0) / f64::from(DISPATCHES - 1), one))
    }

    async fn multiply_add(
        &self,
        lanes: u32,
        rounds: u32,
        factor: f32,
        addend: f32,
    ) -> Result<Ready> {
        let params = MeasureMultiplyAddParams {
            rounds,
            factor,
            addend,
        };
        let overrides = vec![("LANES", f64::from(lanes))];
        let kernel = &MEASURE_MULTIPLY_ADD;
        let variant = Variant { kernel, overrides };
        self.ready(variant, params.words(), None, lanes).await
    }

    async fn ready(
        &self,
        variant: Variant,
        params: Vec<u32>,
        data: Option<Buffer>,
        lanes: u32,
    ) -> Result<Ready> {
        let device = &self.device;
        let pipeline = self.pipelines.get(device, &variant).await?;
        let bytes = u64::from(GROUPS * lanes) * 4;
        let uniform = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let storage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC;
        let words = self.budget.buffer(device, "parameters", uniform, 16)?;
        let out = self.budget.buffer(device, "out", storage, bytes)?;
        device
            .queue
            .write_buffer(&words, 0, bytemuck::cast_slice(&params));
        let buffers = [&words].into_iter().chain(&data).chain([&out]);
        let entries: Vec<_> = (0..)
            .zip(buffers)
            .map(|(binding, buffer)| wgpu::BindGroupEntry {
                binding,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let layout = self.pipelines.bind_group_layout(device, variant.kernel);
        let group = device.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(variant.kernel.name),
            layout: &layout,
            entries: &entries,
        });
        let staging = Staging::new(device, &self.budget, bytes, 1).await?;
        Ok(Ready {
            pipeline,
            group,
            out,
            staging,
            bytes,
            _params: words,
            _data: data,
        })
    }

    /// Seconds of a submission of `times` dispatches of `groups` workgroups with reading the result back, the
    /// best of several, and the result.
    async fn seconds(&self, ready: &Ready, groups: u32, times: u32) -> Result<(f64, Vec<u32>)> {
        let mut best = f64::INFINITY;
        let mut result = Vec::new();
        // Costs are those of a few bytes, sums are all looked at.
        let bytes = if groups == 1 { 16 } else { ready.bytes };
        for _ in 0..RUNS {
            let start = Instant::now();
            let mut encoder = self.encoder();
            {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                for _ in 0..times {
                    pass.set_pipeline(&ready.pipeline);
                    pass.set_bind_group(0, &ready.group, &[]);
                    pass.dispatch_workgroups(groups, 1, 1);
                }
            }
            let mut loan = ready.staging.take(&self.device)?;
            encoder.copy_buffer_to_buffer(&ready.out, 0, loan.buffer(), 0, bytes);
            let submission = self.device.queue.submit([encoder.finish()]);
            loan.map(&self.device, bytes);
            let take = |bytes: &[u8]| bytemuck::pod_collect_to_vec::<u8, u32>(bytes);
            let handle = self.device.handle();
            result = loan.read(&handle, submission, bytes, take).await?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        Ok((best, result))
    }
}

/// A word of what is read: no two near one another are alike.
fn word(at: u32) -> u32 {
    at.wrapping_mul(0x9e37_79b9) ^ (at >> 7)
}

fn wrong<T: std::fmt::Debug>(kernel: &str, found: T, expected: T) -> Error {
    Error::internal(format!(
        "the adapter computes {found:?} in {kernel}, expected {expected:?}: nothing can be measured on it"
    ))
}
