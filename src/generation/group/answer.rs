//! An answer as it is handed out.

use super::super::{
    processors::{best_first, log_total},
    sequence::{Sequence, TokenScore},
    stopping::StopReason,
};

/// What a sequence came to.
#[derive(Debug, Clone)]
pub(in crate::generation) struct Answer {
    /// New ids, end tokens included.
    pub ids: Vec<u32>,
    pub text: String,
    pub reason: StopReason,
    /// The score by which beam search ranked it.
    pub score: Option<f32>,
    /// For each token, the row that it was chosen from, in beam search.
    pub beam_indices: Vec<usize>,
    /// For each token, if they are wanted.
    pub token_scores: Vec<TokenScore>,
    /// For each token its processed score, if scores are wanted.
    pub transition_scores: Vec<f32>,
}

impl Answer {
    /// What `sequence` has come to; aborted, if it has not ended.
    pub fn of(sequence: &Sequence) -> Self {
        Self {
            ids: sequence.answer(),
            text: sequence.text.clone(),
            reason: sequence.reason.unwrap_or(StopReason::Aborted),
            score: None,
            beam_indices: sequence.beam_indices.clone(),
            token_scores: sequence.token_scores.clone(),
            transition_scores: sequence.transition_scores.clone(),
        }
    }
}

/// What a search found, in numbers.
#[derive(Debug, Clone, Copy)]
pub(in crate::generation) struct Found {
    /// Tokens of its answers.
    pub tokens: usize,
    /// Those of them that were made after the prompt was read, which all but the first of an answer are.
    pub decoded: usize,
}

impl Found {
    /// What `answers` come to.
    pub fn of(answers: &[Answer]) -> Self {
        let tokens = answers.iter().map(|answer| answer.ids.len());
        Self {
            tokens: tokens.clone().sum(),
            decoded: tokens.map(|tokens| tokens.saturating_sub(1)).sum(),
        }
    }
}

/// The log-probability of `token` under the softmax of `scores`, and the `top` best tokens with theirs;
/// removed tokens are not among them.
pub(super) fn token_score(scores: &[f32], token: u32, top: usize) -> TokenScore {
    let total = log_total(scores);
    let logprob = |id: u32| (f64::from(scores[id as usize]) - total) as f32;
    let mut best = Vec::new();
    best_first(scores, top, &mut best);
    best.retain(|&id| scores[id as usize] != f32::NEG_INFINITY);
    TokenScore {
        logprob: logprob(token),
        top: best.into_iter().map(|id| (id, logprob(id))).collect(),
    }
}
