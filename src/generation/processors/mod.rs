//! Processors: each changes the scores of the next token; a chain of them runs in a fixed order.
//!
//! A token is *removed* by the score −∞. Order and arithmetic are those of Hugging Face transformers
//! 5.24 (`_get_logits_processor`, `logits_process.py`): scores are f32, NaN and infinities pass
//! through, and whether anything is left to choose is for [`selection`](super::selection) to judge. Extensions
//! stand where their kind stands.

mod apply;
mod bad_words;
mod chain;
mod cutoff;
mod dry;
mod encoder_no_repeat_ngram;
mod encoder_repetition_penalty;
mod exponential_decay;
mod forced_token;
mod guidance;
mod logit_bias;
mod min_length;
mod min_p;
mod mirostat;
mod mt19937;
mod no_repeat_ngram;
mod occurrence_penalty;
mod remove_invalid;
mod renormalize;
mod repetition_penalty;
mod run;
mod sequence_bias;
mod softmax;
mod suppress_tokens;
mod temperature;
mod top_h;
mod top_k;
mod top_n_sigma;
mod top_p;
mod typical;
mod watermark;
mod xtc;

use std::{fmt, rc::Rc};

pub use apply::{Applied, Row, apply_processors};
pub use bad_words::BadWords;
pub use chain::chain;
pub use cutoff::Cutoff;
pub use dry::Dry;
pub use encoder_no_repeat_ngram::EncoderNoRepeatNgram;
pub use encoder_repetition_penalty::EncoderRepetitionPenalty;
pub use exponential_decay::ExponentialDecay;
pub use forced_token::{ForcedBos, ForcedEos};
pub use guidance::Guidance;
pub use logit_bias::LogitBias;
pub use min_length::MinLength;
pub use min_p::MinP;
pub use mirostat::Mirostat;
pub use no_repeat_ngram::NoRepeatNgram;
pub use occurrence_penalty::{FrequencyPenalty, PresencePenalty};
pub use remove_invalid::RemoveInvalid;
pub use renormalize::Renormalize;
pub use repetition_penalty::RepetitionPenalty;
pub use run::{ScoredRow, run};
pub use sequence_bias::SequenceBias;
use softmax::{entropy, softmax_in_place};
pub(super) use softmax::{log_softmax, log_total, softmax};
pub use suppress_tokens::{BeginSuppressTokens, SuppressTokens};
pub use temperature::Temperature;
pub use top_h::TopH;
pub use top_k::TopK;
pub use top_n_sigma::TopNSigma;
pub use top_p::TopP;
pub use typical::Typical;
pub use watermark::Watermark;
pub use xtc::Xtc;

use super::{config::Source, home::DeviceForm, value::Value};

/// What a processor was told, by the names of the fields.
pub type Args = Vec<(&'static str, Value)>;

/// Changes the scores of the next token of one sequence.
pub trait Processor: fmt::Debug {
    /// The name in the plan: the field that asks for it.
    fn name(&self) -> &'static str;

    /// What it was told.
    fn args(&self) -> Args;

    /// The same on the device, if it has a form there.
    fn device(&self) -> Option<DeviceForm> {
        None
    }

    /// Changes `scores`, one for each id of the model's vocabulary.
    fn process(&self, context: &Context, scores: &mut [f32], scratch: &mut Scratch);
}

/// The sequence whose next token is being scored.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context<'a> {
    /// Prompt and answer so far.
    pub ids: &'a [u32],
    /// How many of them are the prompt.
    pub prompt_length: usize,
    /// The sequence's index in the call: draws and memory belong to it.
    pub sequence: usize,
    /// The unprocessed scores after the negative prompt and the same answer, where a chain guides.
    pub unconditional: Option<&'a [f32]>,
}

impl<'a> Context<'a> {
    /// The prompt.
    pub fn prompt(&self) -> &'a [u32] {
        &self.ids[..self.prompt_length]
    }

    /// The answer so far.
    pub fn answer(&self) -> &'a [u32] {
        &self.ids[self.prompt_length..]
    }

    /// Tokens of the answer so far.
    pub fn new_tokens(&self) -> usize {
        self.ids.len() - self.prompt_length
    }
}

/// Memory of one call: shared by the processors from step to step, so that a step allocates nothing.
#[derive(Debug, Default)]
pub struct Scratch {
    order: Vec<u32>,
    values: Vec<f32>,
    seen: Vec<u64>,
    lengths: Vec<u32>,
    /// By sequence.
    memories: Vec<mirostat::Memory>,
}

impl Scratch {
    /// Changes the score of each token in `ids` once, however often it occurs; ids beyond the scores are
    /// left out.
    fn each_once(&mut self, ids: &[u32], scores: &mut [f32], mut change: impl FnMut(&mut f32)) {
        self.seen.clear();
        self.seen.resize(scores.len().div_ceil(64), 0);
        for &id in ids {
            let Some(score) = scores.get_mut(id as usize) else {
                continue;
            };
            let (word, bit) = (id as usize / 64, 1 << (id % 64));
            if self.seen[word] & bit == 0 {
                self.seen[word] |= bit;
                change(score);
            }
        }
    }
}

/// A stage of a chain and the layer that asked for it.
#[derive(Debug, Clone)]
pub struct Stage {
    /// What it does.
    pub work: Work,
    /// Where its value came from.
    pub source: Source,
}

/// What a stage does.
#[derive(Debug, Clone)]
pub enum Work {
    /// A processor of ours.
    Processor(Rc<dyn Processor>),
    /// The caller's processor at this place of its list.
    Function(usize),
    /// The caller's function that restricts tokens.
    AllowedTokens,
}

impl Stage {
    /// The name in the plan.
    pub fn name(&self) -> &'static str {
        match &self.work {
            Work::Processor(processor) => processor.name(),
            Work::Function(_) => "logits_processor",
            Work::AllowedTokens => "prefix_allowed_tokens_fn",
        }
    }

    /// What it was told.
    pub fn args(&self) -> Args {
        match &self.work {
            Work::Processor(processor) => processor.args(),
            Work::Function(index) => vec![("index", (*index).into())],
            Work::AllowedTokens => Vec::new(),
        }
    }
}

/// Removes `ids`; those beyond the scores are left out.
fn remove(ids: &[u32], scores: &mut [f32]) {
    for id in ids {
        if let Some(score) = scores.get_mut(*id as usize) {
            *score = f32::NEG_INFINITY;
        }
    }
}

/// Puts the ids of the `count` greatest values into `order`; lower ids win ties.
fn best_ids(values: &[f32], count: usize, order: &mut Vec<u32>) {
    order.clear();
    order.extend(0..values.len() as u32);
    if count < values.len() {
        order.select_nth_unstable_by(count, better(values));
        order.truncate(count);
    }
}

/// The same, the greatest first.
pub(super) fn best_first(values: &[f32], count: usize, order: &mut Vec<u32>) {
    best_ids(values, count, order);
    order.sort_unstable_by(better(values));
}

fn better(values: &[f32]) -> impl Fn(&u32, &u32) -> std::cmp::Ordering {
    |&a, &b| {
        let descending = values[b as usize].total_cmp(&values[a as usize]);
        descending.then(a.cmp(&b))
    }
}

/// The `k`-th greatest of `scores`, or the least where there are fewer; there is at least one.
fn kth_best(scores: &[f32], k: usize, scratch: &mut Scratch) -> f32 {
    scratch.values.clear();
    scratch.values.extend_from_slice(scores);
    let at = k.clamp(1, scores.len()) - 1;
    let (_, kth, _) = scratch
        .values
        .select_nth_unstable_by(at, |a, b| b.total_cmp(a));
    *kth
}
