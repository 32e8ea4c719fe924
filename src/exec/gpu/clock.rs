//! The device's own clock: dispatches recorded in one pass, or for a profile each between two timestamps.

use super::{
    binder::Bound,
    device::{Device, Handle},
    memory::{Budget, Buffer},
    readback::{Loan, Staging},
};
use crate::{error::Result, exec::profile::Profile};

/// Timestamps of a query set, the most that WebGPU allows.
const QUERIES: u32 = 4096;
/// Dispatches that they are for.
const DISPATCHES: usize = QUERIES as usize / 2;

/// Records the dispatches of a submission.
#[cfg_attr(
    not(target_arch = "wasm32"),
    expect(
        clippy::large_enum_variant,
        reason = "it lives on the stack for one submission, and a step allocates nothing"
    )
)]
pub(super) enum Recorder<'a> {
    /// All in one pass.
    Plain(wgpu::ComputePass<'a>, u64),
    /// Each in a pass of its own, with a timestamp before and after.
    Timed(Timed<'a>),
}

/// What a profile needs. It is made anew for each submission: only profiles pay for that.
pub(super) struct Timed<'a> {
    encoder: &'a mut wgpu::CommandEncoder,
    profile: Profile,
    sets: Vec<wgpu::QuerySet>,
    names: Vec<&'static str>,
}

/// Timestamps that have been recorded, to be read after the submission.
pub(super) struct Ticks {
    profile: Profile,
    names: Vec<&'static str>,
    /// Milliseconds of a tick.
    period: f64,
    /// What the command buffer refers to.
    _resolved: Buffer,
    loan: Loan,
}

impl<'a> Recorder<'a> {
    /// Records into `encoder`, with timestamps for `profile` if there is one.
    pub fn new(encoder: &'a mut wgpu::CommandEncoder, profile: Option<Profile>) -> Self {
        match profile {
            None => Self::Plain(encoder.begin_compute_pass(&Default::default()), 0),
            Some(profile) => Self::Timed(Timed {
                encoder,
                profile,
                sets: Vec::new(),
                names: Vec::new(),
            }),
        }
    }

    /// Records `bound` for `rows` rows.
    pub fn dispatch(&mut self, device: &Device, bound: &Bound, rows: usize) {
        match self {
            Self::Plain(pass, count) => {
                bound.record(device, pass, rows);
                *count += 1;
            }
            Self::Timed(timed) => timed.dispatch(device, bound, rows),
        }
    }

    /// Ends the recording: how many dispatches there were, and where to read their times.
    pub fn finish(self, device: &Device, budget: &Budget) -> Result<(u64, Option<Ticks>)> {
        match self {
            Self::Plain(_, count) => Ok((count, None)),
            Self::Timed(timed) => {
                let count = timed.names.len() as u64;
                Ok((count, Some(timed.finish(device, budget)?)))
            }
        }
    }
}

impl Timed<'_> {
    fn dispatch(&mut self, device: &Device, bound: &Bound, rows: usize) {
        let at = self.names.len() % DISPATCHES;
        if at == 0 {
            let set = device.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("profile"),
                ty: wgpu::QueryType::Timestamp,
                count: QUERIES,
            });
            self.sets.push(set);
        }
        let set = &self.sets[self.names.len() / DISPATCHES];
        let descriptor = wgpu::ComputePassDescriptor {
            label: None,
            timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                query_set: set,
                beginning_of_pass_write_index: Some(at as u32 * 2),
                end_of_pass_write_index: Some(at as u32 * 2 + 1),
            }),
        };
        let mut pass = self.encoder.begin_compute_pass(&descriptor);
        bound.record(device, &mut pass, rows);
        drop(pass);
        self.names.push(bound.name());
    }

    fn finish(self, device: &Device, budget: &Budget) -> Result<Ticks> {
        let bytes = self.names.len() as u64 * 16;
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let resolved = budget.buffer(device, "profile", usage, bytes)?;
        let loan = Staging::empty(budget, bytes).take(device)?;
        for (i, (names, set)) in self.names.chunks(DISPATCHES).zip(&self.sets).enumerate() {
            let at = (i * DISPATCHES) as u64 * 16;
            let queries = 0..names.len() as u32 * 2;
            self.encoder.resolve_query_set(set, queries, &resolved, at);
        }
        self.encoder
            .copy_buffer_to_buffer(&resolved, 0, loan.buffer(), 0, bytes);
        Ok(Ticks {
            profile: self.profile,
            names: self.names,
            period: f64::from(device.queue.get_timestamp_period()) / 1e6,
            _resolved: resolved,
            loan,
        })
    }
}

impl Ticks {
    /// Asks for the times, after their submission.
    pub fn map(&mut self, device: &Device) {
        let bytes = self.names.len() as u64 * 16;
        self.loan.map(device, bytes);
    }

    /// Waits for the times and adds them to the profile.
    pub async fn read(self, device: &Handle, submission: wgpu::SubmissionIndex) -> Result<()> {
        let bytes = self.names.len() as u64 * 16;
        let take = |bytes: &[u8]| bytemuck::pod_collect_to_vec::<u8, [u64; 2]>(bytes);
        let times = self.loan.read(device, submission, bytes, take).await?;
        for (name, [from, to]) in self.names.iter().zip(times) {
            self.profile
                .add(name, to.saturating_sub(from) as f64 * self.period);
        }
        Ok(())
    }
}
