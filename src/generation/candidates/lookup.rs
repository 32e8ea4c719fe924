//! Prompt lookup: what followed the last time that the text ended like this.
//!
//! Tried are endings from the longest to a single token; of several places the leftmost wins. Source:
//! Saxena 2023; `PromptLookupCandidateGenerator`.

use super::{Draft, Start, process};
use crate::generation::{plan::Plan, processors::Scratch};

/// How much is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookupSettings {
    /// The most tokens of a draft.
    pub tokens: usize,
    /// Tokens of the longest ending that is looked for.
    pub ngram: usize,
    /// Scores of a position.
    pub vocabulary: usize,
}

/// The tokens that followed an earlier occurrence of the end of the text, up to an end token or one
/// that the processors forbid.
pub(super) fn draft(
    settings: &LookupSettings,
    start: Start,
    plan: &Plan,
    scratch: &mut Scratch,
) -> Draft {
    let ids = start.ids;
    let mut scores = Vec::new();
    for ngram in (1..=settings.ngram.min(ids.len() - 1)).rev() {
        let ending = &ids[ids.len() - ngram..];
        let places = (0..ids.len() - ngram).filter(|&at| ids[at..at + ngram] == *ending);
        for place in places {
            let begin = place + ngram;
            let end = (begin + settings.tokens.min(start.room)).min(ids.len());
            let found = &ids[begin..end];
            let allowed = allowed(settings, start, found, plan, &mut scores, scratch);
            if allowed == 0 {
                continue;
            }
            let ends = |id: &u32| plan.eos_token_ids().contains(id);
            let found = &found[..allowed];
            let until_end = found.iter().position(ends).unwrap_or(allowed);
            return Draft {
                tokens: found[..until_end].to_vec(),
                ..Draft::default()
            };
        }
    }
    Draft::default()
}

/// How many of the first of `tokens` the processors do not remove.
fn allowed(
    settings: &LookupSettings,
    start: Start,
    tokens: &[u32],
    plan: &Plan,
    scores: &mut Vec<f32>,
    scratch: &mut Scratch,
) -> usize {
    if plan.processors.is_empty() {
        return tokens.len();
    }
    let mut ids = start.ids.to_vec();
    for (at, &token) in tokens.iter().enumerate() {
        scores.clear();
        scores.resize(settings.vocabulary, 1.0);
        process(plan, &ids, start.prompt_length, scores, scratch);
        if scores[token as usize] <= f32::MIN {
            return at;
        }
        ids.push(token);
    }
    tokens.len()
}
