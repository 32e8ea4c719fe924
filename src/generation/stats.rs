//! Figures: what one call did, and what all calls of a model did together.
//!
//! Times count only while a step is being computed, not while the caller looks at an event. A step that
//! evaluates any token of a prompt counts as prefill, every other as decode. Rates are `None` where
//! nothing was measured.

use super::{cache::PoolUse, stopping::StopReason};
use crate::ops::CacheSpec;

/// Tokens read and written, over all sequences of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompts.
    pub prompt_tokens: usize,
    /// Tokens of the answers, end tokens included.
    pub completion_tokens: usize,
    /// Tokens of the prompts whose keys and values were still in the cache.
    pub cached_tokens: usize,
}

/// Where a call's time went, and what the device did for it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timings {
    /// Milliseconds in steps that evaluated tokens of a prompt.
    pub prefill_ms: f64,
    /// Milliseconds in other steps.
    pub decode_ms: f64,
    /// Milliseconds from the first pull to the first token; `None` if there was no token.
    pub time_to_first_token_ms: Option<f64>,
    /// Tokens of prompts evaluated.
    pub prefill_tokens: usize,
    /// Tokens made by decode steps.
    pub decode_tokens: usize,
    /// Forward passes.
    pub forwards: u64,
    /// Kernel dispatches.
    pub dispatches: u64,
    /// Queue submissions.
    pub submits: u64,
    /// Bytes written to the device.
    pub bytes_uploaded: u64,
    /// Bytes of scores or choices read back.
    pub bytes_read: u64,
    /// The most steps that were on the device while their tokens were not known.
    pub run_ahead: usize,
    /// Steps that were computed for nobody, after all their sequences had ended.
    pub steps_wasted: u64,
}

impl Timings {
    /// Tokens of prompts evaluated per second.
    pub fn prefill_tokens_per_second(&self) -> Option<f64> {
        rate(self.prefill_tokens, self.prefill_ms)
    }

    /// Tokens made per second after the prompt was evaluated.
    pub fn decode_tokens_per_second(&self) -> Option<f64> {
        rate(self.decode_tokens, self.decode_ms)
    }
}

/// What a model has done since it was loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    /// Calls that ended, aborted and failed ones included.
    pub generations: u64,
    /// Calls that ended in an error.
    pub failures: u64,
    /// Tokens over all calls.
    pub usage: Usage,
    /// Tokens of prompts evaluated per second.
    pub prefill_tokens_per_second: Option<f64>,
    /// Tokens made per second after the prompt.
    pub decode_tokens_per_second: Option<f64>,
    /// Milliseconds to the first token of the last call that had one.
    pub time_to_first_token_ms: Option<f64>,
    /// The same, averaged over all calls that had one.
    pub mean_time_to_first_token_ms: Option<f64>,
    /// Bytes of the key-value cache.
    pub cache_bytes_reserved: u64,
    /// Bytes of it that running sequences hold.
    pub cache_bytes_used: u64,
    /// Bytes of it that hold the last answer, for a prompt that begins alike; free for any other.
    pub cache_bytes_retained: u64,
    /// The share of ended sequences that a limit cut short.
    pub truncation_rate: Option<f64>,
    /// Ended sequences by reason, in the order of [`StopReason::ALL`], without zeros.
    pub stop_reasons: Vec<(StopReason, u64)>,
}

/// Sums over calls.
#[derive(Debug, Default)]
pub(super) struct Totals {
    generations: u64,
    failures: u64,
    usage: Usage,
    timings: Timings,
    first_tokens: u64,
    first_token_ms: f64,
    reasons: [u64; StopReason::ALL.len()],
}

impl Totals {
    /// Adds one call that has ended; `reasons` has an entry for each sequence that ended without error.
    pub fn add(&mut self, usage: Usage, timings: &Timings, reasons: &[StopReason], failed: bool) {
        self.generations += 1;
        self.failures += u64::from(failed);
        self.usage.prompt_tokens += usage.prompt_tokens;
        self.usage.completion_tokens += usage.completion_tokens;
        self.usage.cached_tokens += usage.cached_tokens;
        self.timings.prefill_ms += timings.prefill_ms;
        self.timings.decode_ms += timings.decode_ms;
        self.timings.prefill_tokens += timings.prefill_tokens;
        self.timings.decode_tokens += timings.decode_tokens;
        if let Some(first) = timings.time_to_first_token_ms {
            self.timings.time_to_first_token_ms = Some(first);
            self.first_tokens += 1;
            self.first_token_ms += first;
        }
        for reason in reasons {
            self.reasons[*reason as usize] += 1;
        }
    }

    /// The figures, with what the cache is doing now.
    pub fn stats(&self, cache: &CacheSpec, pool: PoolUse) -> Stats {
        let reasons = StopReason::ALL.map(|reason| (reason, self.reasons[reason as usize]));
        let ended: u64 = self.reasons.iter().sum();
        let truncated = reasons.iter().filter(|(reason, _)| reason.is_truncation());
        let truncated: u64 = truncated.map(|(_, count)| count).sum();
        let page_bytes = cache.bytes() / cache.pages.max(1) as u64;
        let share = |part: f64, whole: u64| (whole > 0).then(|| part / whole as f64);
        Stats {
            generations: self.generations,
            failures: self.failures,
            usage: self.usage,
            prefill_tokens_per_second: self.timings.prefill_tokens_per_second(),
            decode_tokens_per_second: self.timings.decode_tokens_per_second(),
            time_to_first_token_ms: self.timings.time_to_first_token_ms,
            mean_time_to_first_token_ms: share(self.first_token_ms, self.first_tokens),
            cache_bytes_reserved: cache.bytes(),
            cache_bytes_used: pool.used as u64 * page_bytes,
            cache_bytes_retained: pool.retained as u64 * page_bytes,
            truncation_rate: share(truncated as f64, ended),
            stop_reasons: reasons.into_iter().filter(|(_, n)| *n > 0).collect(),
        }
    }
}

fn rate(tokens: usize, milliseconds: f64) -> Option<f64> {
    (tokens > 0 && milliseconds > 0.0).then(|| tokens as f64 * 1000.0 / milliseconds)
}
