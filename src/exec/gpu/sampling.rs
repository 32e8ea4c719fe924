//! Choosing tokens on the device: the buffers, and the dispatches after a step's logits.
//!
//! Greedy choice and plain draws take two dispatches, filters and reports two more, a search one. What a call
//! is like travels in a plan of words ([`sample_words`](super::sample_words)) when it begins; a run sends a
//! few words a row.

use super::{
    binder::{Binder, Bound},
    clock::Recorder,
    device::Device,
    dispatch::{Dispatch, Grid, Slot, stride},
    forms::{self, Adapter},
    memory::{Budget, Buffer},
    params::{Params, SampleParams},
    pipelines::Variant,
    prepared::Prepared,
    readback::Staging,
    sample_kernels::{
        SAMPLE_BINS, SAMPLE_CANDIDATES, SAMPLE_NORMALISE, SAMPLE_PICK, SAMPLE_SCORES,
    },
    sample_words::{self, BIN_WORDS, PLAN_WORDS, ROW_WORDS},
};
use crate::{
    error::{Error, Result},
    exec::sample::{MOST_BEST, MOST_STEPS, Run, Sampler, result_words},
};

/// Candidates that a row's list holds.
const CANDIDATES: usize = 4096;
/// Runs that may be in flight without making a new staging buffer.
const STAGING_BUFFERS: usize = 2;

/// The buffers of sampling, a slot each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum SampleBuffer {
    Plan,
    Rows,
    Scores,
    Partials,
    Bins,
    Candidates,
    /// How often each row has each token, then the ids of each row.
    Counts,
    Results,
}

/// What choosing tokens needs, made once.
pub(super) struct Sampling {
    buffers: SamplingBuffers,
    staging: Staging,
    /// For each tape, what to run: normalise, scores, bins, candidates, pick.
    dispatches: Vec<Vec<Bound>>,
    vocabulary: usize,
    past: Past,
    /// Bind groups refer to them.
    _params: Vec<Buffer>,
}

/// Where the ids of rows lie behind the counts.
#[derive(Debug, Clone, Copy)]
struct Past {
    /// Where they begin, in words.
    at: usize,
    /// Ids that a row may have.
    history: usize,
}

/// Buffers by [`SampleBuffer`].
pub(super) struct SamplingBuffers(Vec<Buffer>);

impl SamplingBuffers {
    pub fn of(&self, part: SampleBuffer) -> &Buffer {
        &self.0[part as usize]
    }
}

impl Sampling {
    /// Buffers for the tapes that `prepared` holds, which have one vocabulary. `OutOfMemory` or
    /// `Unsupported` where they do not fit.
    pub async fn new(binder: Binder<'_>, budget: &Budget, prepared: &[Prepared]) -> Result<Self> {
        let device = binder.device;
        let vocabulary = |p: &Prepared| p.tape.buffers[p.tape.logits.0].columns;
        let outputs = prepared.iter().map(|p| p.tape.max_outputs).max();
        let (Some(first), Some(outputs)) = (prepared.first(), outputs) else {
            return Err(Error::internal("there is no tape to choose tokens after"));
        };
        let vocabulary = vocabulary(first);
        let cache = binder.store.allocation.cache;
        let past = Past {
            at: outputs * vocabulary,
            // The last token is never evaluated.
            history: first.layout.pages * cache.page_size + 1,
        };
        let partials = outputs * partials(device.adapter);
        // In the order of `SampleBuffer`.
        let words = [
            PLAN_WORDS,
            outputs * ROW_WORDS,
            outputs * vocabulary,
            partials * 4,
            outputs * BIN_WORDS,
            outputs * (CANDIDATES + 4),
            outputs * (vocabulary + past.history),
            MOST_STEPS * outputs * result_words(MOST_BEST),
        ];
        let sizes = words.map(|words| words as u64 * 4);
        if sizes.iter().any(|&size| size > device.binding_limit) {
            return Err(Error::unsupported(format!(
                "the scores of {outputs} rows of {vocabulary} tokens do not fit the device's binding limit of {}",
                device.binding_limit
            )));
        }
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_DST
            | wgpu::BufferUsages::COPY_SRC;
        let buffers = budget.buffers(device, "sampling", usage, &sizes).await?;
        let buffers = SamplingBuffers(buffers);
        let results = sizes[SampleBuffer::Results as usize];
        let staging = Staging::new(device, budget, results, STAGING_BUFFERS).await?;
        let (mut dispatches, mut params) = (Vec::new(), Vec::new());
        for prepared in prepared {
            let binder = Binder {
                buffers: &prepared.buffers,
                sampling: Some(&buffers),
                ..binder
            };
            let described = describe(device.adapter, prepared, vocabulary, past);
            let described: Vec<&Dispatch> = described.iter().collect();
            let (bound, words) = binder.dispatches(budget, &described).await?;
            dispatches.push(bound);
            params.push(words);
        }
        Ok(Self {
            buffers,
            staging,
            dispatches,
            vocabulary,
            past,
            _params: params,
        })
    }

    /// Sends what a run needs, or nothing where it fails; returns how many bytes that took.
    pub fn upload(&self, device: &Device, run: &Run) -> Result<u64> {
        let send = |part: SampleBuffer, words: &[u32], at: usize| {
            let bytes: &[u8] = bytemuck::cast_slice(words);
            let at = at as u64 * 4;
            device.queue.write_buffer(self.buffers.of(part), at, bytes);
            bytes.len() as u64
        };
        if run.resume {
            return Ok(send(SampleBuffer::Rows, &sample_words::rows(run.rows), 0));
        }
        let plan = sample_words::plan(run.sampler)?;
        let mut sent = send(SampleBuffer::Rows, &sample_words::rows(run.rows), 0);
        sent += send(SampleBuffer::Plan, &plan, 0);
        if run.sampler.counts() {
            for (at, row) in run.rows.iter().enumerate() {
                let counts = sample_words::counts(row, self.vocabulary);
                sent += send(SampleBuffer::Counts, &counts, at * self.vocabulary);
            }
        }
        if run.sampler.follows() {
            let Past { at: past, history } = self.past;
            for (at, row) in run.rows.iter().enumerate() {
                let ids = &row.ids[..row.ids.len().min(history)];
                sent += send(SampleBuffer::Counts, ids, past + at * history);
            }
        }
        Ok(sent)
    }

    /// Records the choice of a token for each of `outputs` rows of `tape`.
    pub fn record(
        &self,
        device: &Device,
        recorder: &mut Recorder,
        tape: usize,
        sampler: &Sampler,
        outputs: usize,
    ) {
        let lists = sampler.filters() || sampler.best > 0;
        let needed = [sampler.search, true, lists, lists, true];
        for (dispatch, needed) in self.dispatches[tape].iter().zip(needed) {
            if needed {
                recorder.dispatch(device, dispatch, outputs);
            }
        }
    }

    /// Where results are, and the pool of buffers that they are read through.
    pub fn results(&self) -> (&Buffer, &Staging) {
        (self.buffers.of(SampleBuffer::Results), &self.staging)
    }
}

/// Parts that each row's best is first found in.
fn partials(adapter: Adapter) -> usize {
    forms::sample_slices(adapter) * forms::sample_lanes(adapter)
}

/// The dispatches after a step of the tape that `prepared` holds.
fn describe(adapter: Adapter, prepared: &Prepared, vocabulary: usize, past: Past) -> Vec<Dispatch> {
    use SampleBuffer::{Bins, Candidates, Counts, Partials, Plan, Results, Rows, Scores};
    let slices = forms::sample_slices(adapter);
    let params = SampleParams {
        vocabulary: vocabulary as u32,
        stride: stride(vocabulary) as u32,
        slices: slices as u32,
        most: CANDIDATES as u32,
        tokens: prepared.layout.tokens() as u32,
        positions: prepared.layout.positions() as u32,
        past: past.at as u32,
        history: past.history as u32,
    }
    .words();
    let partials = ("PARTIALS", partials(adapter) as f64);
    let logits = Slot::Activation(prepared.tape.logits);
    let part = Slot::Sampling;
    let kernels = [
        (&SAMPLE_NORMALISE, vec![], 1, vec![logits, part(Rows)]),
        (
            &SAMPLE_SCORES,
            vec![],
            slices,
            vec![
                part(Plan),
                part(Rows),
                logits,
                part(Counts),
                part(Scores),
                part(Partials),
                part(Bins),
            ],
        ),
        (
            &SAMPLE_BINS,
            vec![partials],
            slices,
            vec![part(Scores), part(Partials), part(Bins), part(Candidates)],
        ),
        (
            &SAMPLE_CANDIDATES,
            vec![partials],
            slices,
            vec![
                part(Plan),
                part(Scores),
                part(Partials),
                part(Bins),
                part(Candidates),
            ],
        ),
        (
            &SAMPLE_PICK,
            vec![partials],
            1,
            vec![
                part(Plan),
                part(Rows),
                part(Scores),
                part(Partials),
                part(Candidates),
                part(Counts),
                part(Results),
            ],
        ),
    ];
    let dispatch = |(kernel, mut overrides, groups, slots): (_, Vec<_>, _, Vec<Slot>)| {
        overrides.push(("LANES", forms::sample_lanes(adapter) as f64));
        let slots = std::iter::once(Slot::Step).chain(slots);
        Dispatch {
            variant: Variant { kernel, overrides },
            params: params.clone(),
            slots: (1..).zip(slots).collect(),
            grid: Grid::Groups { groups, rows: 1 },
        }
    };
    kernels.into_iter().map(dispatch).collect()
}
