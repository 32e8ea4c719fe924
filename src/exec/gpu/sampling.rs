//! Choosing tokens on the device: the buffers, and the dispatches after a step's logits.
//!
//! Greedy choice and plain draws take two dispatches, filters two more. What a call is like travels in a
//! plan of words (`shaders/lib/sample.wgsl` has its layout) when it begins; a run sends a few words a row.

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
    sample_kernels::{SAMPLE_BINS, SAMPLE_CANDIDATES, SAMPLE_PICK, SAMPLE_SCORES},
};
use crate::{
    error::{Error, Result},
    exec::sample::{Change, Choice, MOST_STEPS, Row, Run, Sampler, When},
};

/// Candidates that a row's list holds.
const CANDIDATES: usize = 4096;
/// Words that a plan may take.
const PLAN_WORDS: usize = 1 << 16;
/// Words of a plan's head, of an edit, and of a row.
const HEAD: usize = 8;
const EDIT_WORDS: usize = 8;
const ROW_WORDS: usize = 8;
/// Words of all bins of a row.
const BIN_WORDS: usize = 1024 * 3;
/// Runs that may be in flight without making a new staging buffer.
const STAGING_BUFFERS: usize = 2;

/// The buffers of sampling, a slot each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Part {
    Plan,
    Rows,
    Scores,
    Partials,
    Bins,
    Candidates,
    Counts,
    Results,
}

/// What choosing tokens needs, made once.
pub(super) struct Sampling {
    buffers: SamplingBuffers,
    staging: Staging,
    /// For each tape, what to run: scores, bins, candidates, pick.
    dispatches: Vec<Vec<Bound>>,
    vocabulary: usize,
    /// Bind groups refer to them.
    _params: Vec<Buffer>,
}

/// Buffers by [`Part`].
pub(super) struct SamplingBuffers(Vec<Buffer>);

impl SamplingBuffers {
    pub fn of(&self, part: Part) -> &Buffer {
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
        let partials = outputs * partials(device.adapter);
        // In the order of `Part`.
        let words = [
            PLAN_WORDS,
            outputs * ROW_WORDS,
            outputs * vocabulary,
            partials * 4,
            outputs * BIN_WORDS,
            outputs * (CANDIDATES + 4),
            outputs * vocabulary,
            MOST_STEPS * outputs * 2,
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
        let results = (MOST_STEPS * outputs * 8) as u64;
        let staging = Staging::new(device, budget, results, STAGING_BUFFERS).await?;
        let (mut dispatches, mut params) = (Vec::new(), Vec::new());
        for prepared in prepared {
            let binder = Binder {
                buffers: &prepared.buffers,
                sampling: Some(&buffers),
                ..binder
            };
            let described = describe(device.adapter, prepared, vocabulary);
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
            _params: params,
        })
    }

    /// Sends what a run needs, or nothing where it fails; returns how many bytes that took.
    pub fn upload(&self, device: &Device, run: &Run) -> Result<u64> {
        let send = |part: Part, words: &[u32], at: usize| {
            let bytes: &[u8] = bytemuck::cast_slice(words);
            let at = at as u64 * 4;
            device.queue.write_buffer(self.buffers.of(part), at, bytes);
            bytes.len() as u64
        };
        if run.resume {
            return Ok(send(Part::Rows, &rows(run.rows), 0));
        }
        let plan = plan(run.sampler)?;
        let mut sent = send(Part::Rows, &rows(run.rows), 0) + send(Part::Plan, &plan, 0);
        if run.sampler.counts() {
            for (at, row) in run.rows.iter().enumerate() {
                let counts = counts(row, self.vocabulary);
                sent += send(Part::Counts, &counts, at * self.vocabulary);
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
        let filters = sampler.filters();
        let all = self.dispatches[tape].iter().enumerate();
        let needed = all.filter(|(at, _)| filters || [0, 3].contains(at));
        for (_, dispatch) in needed {
            recorder.dispatch(device, dispatch, outputs);
        }
    }

    /// Where results are, and the pool of buffers that they are read through.
    pub fn results(&self) -> (&Buffer, &Staging) {
        (self.buffers.of(Part::Results), &self.staging)
    }
}

/// What the words of a result say.
pub(super) fn choices(bytes: &[u8]) -> Vec<Choice> {
    let words = bytemuck::pod_collect_to_vec::<u8, u32>(bytes);
    let (pairs, _) = words.as_chunks::<2>();
    let choice = |&[token, fault]: &[u32; 2]| match fault {
        0 => Choice::Token(token),
        1 => Choice::Incomparable,
        _ => Choice::NothingLeft,
    };
    pairs.iter().map(choice).collect()
}

/// Parts that each row's best is first found in.
fn partials(adapter: Adapter) -> usize {
    forms::sample_slices(adapter) * forms::sample_lanes(adapter)
}

/// The four dispatches after a step of the tape that `prepared` holds.
fn describe(adapter: Adapter, prepared: &Prepared, vocabulary: usize) -> Vec<Dispatch> {
    use Part::{Bins, Candidates, Counts, Partials, Plan, Results, Rows, Scores};
    let slices = forms::sample_slices(adapter);
    let params = SampleParams {
        vocabulary: vocabulary as u32,
        stride: stride(vocabulary) as u32,
        slices: slices as u32,
        most: CANDIDATES as u32,
        tokens: prepared.layout.tokens() as u32,
        positions: prepared.layout.positions() as u32,
    }
    .words();
    let partials = ("PARTIALS", partials(adapter) as f64);
    let logits = Slot::Activation(prepared.tape.logits);
    let part = Slot::Sampling;
    let kernels = [
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
            grid: Grid::Groups { groups },
        }
    };
    kernels.into_iter().map(dispatch).collect()
}

/// The words of a plan.
fn plan(sampler: &Sampler) -> Result<Vec<u32>> {
    let seed = sampler.seed.unwrap_or(0);
    let mut words = vec![
        sampler.edits.len() as u32,
        u32::from(sampler.seed.is_some()),
        u32::from(sampler.filters()),
        sampler.top_k.min(u32::MAX as usize) as u32,
        sampler.removable.unwrap_or(-1.0).to_bits(),
        sampler.min_p.to_bits(),
        seed as u32,
        (seed >> 32) as u32,
    ];
    words.resize(HEAD + sampler.edits.len() * EDIT_WORDS, 0);
    for (i, edit) in sampler.edits.iter().enumerate() {
        let (kind, value, list) = match &edit.change {
            Change::Repetition(penalty) => (0, *penalty, Vec::new()),
            Change::Frequency(penalty) => (1, *penalty, Vec::new()),
            Change::Presence(penalty) => (2, *penalty, Vec::new()),
            Change::Temperature(temperature) => (3, *temperature, Vec::new()),
            Change::Add(biases) => (4, 0.0, biases.clone()),
            Change::Remove(ids) => (5, 0.0, ids.iter().map(|&id| (id, 0.0)).collect()),
            Change::Force(ids) => (6, 0.0, ids.iter().map(|&id| (id, 0.0)).collect()),
        };
        let (condition, number) = match edit.when {
            When::Always => (0, 0),
            When::NewTokensBelow(number) => (1, number),
            When::LengthBelow(number) => (2, number),
            When::NewTokensAre(number) => (3, number),
            When::LengthIs(number) => (4, number),
            When::Last => (5, 0),
        };
        let mut list = list;
        list.sort_by_key(|&(id, _)| id);
        let ids = words.len() as u32;
        words.extend(list.iter().map(|&(id, _)| id));
        let numbers = words.len() as u32;
        words.extend(list.iter().map(|&(_, number)| number.to_bits()));
        let at = HEAD + i * EDIT_WORDS;
        let count = list.len() as u32;
        let edit = [
            kind,
            condition,
            number,
            value.to_bits(),
            ids,
            numbers,
            count,
        ];
        words[at..at + edit.len()].copy_from_slice(&edit);
    }
    match words.len() <= PLAN_WORDS {
        true => Ok(words),
        false => Err(Error::internal(format!(
            "a plan of {} words, allowed: {PLAN_WORDS}",
            words.len()
        ))),
    }
}

/// The words of a run's rows.
fn rows(rows: &[Row]) -> Vec<u32> {
    let words = rows.iter().flat_map(|row| {
        let new_tokens = row.new_tokens as u32;
        let length = (row.prompt_length + row.new_tokens) as u32;
        let limit = row.limit.min(u32::MAX as usize) as u32;
        [row.sequence, new_tokens, length, limit, new_tokens, 0, 0, 0]
    });
    words.collect()
}

/// How often each token occurred in the answer, and in bit 31 whether it occurred in the prompt.
fn counts(row: &Row, vocabulary: usize) -> Vec<u32> {
    let mut counts = vec![0u32; vocabulary];
    let (prompt, answer) = row.ids.split_at(row.prompt_length);
    for &id in answer {
        if let Some(count) = counts.get_mut(id as usize) {
            *count += 1;
        }
    }
    for &id in prompt {
        if let Some(count) = counts.get_mut(id as usize) {
            *count |= 1 << 31;
        }
    }
    counts
}
