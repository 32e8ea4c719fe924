//! An answer as it is handed out.

use super::super::{
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

/// The log-probability of `token` under the softmax of `scores`, and the `top` best tokens with theirs;
/// removed tokens are not among them.
pub(super) fn token_score(scores: &[f32], token: u32, top: usize) -> TokenScore {
    let greatest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shifted = scores.iter().map(|s| f64::from(s - greatest).exp());
    let total = f64::from(greatest) + shifted.sum::<f64>().ln();
    let logprob = |id: u32| (f64::from(scores[id as usize]) - total) as f32;
    let mut best: Vec<u32> = Vec::with_capacity(top + 1);
    for id in 0..scores.len() as u32 {
        let score = scores[id as usize];
        let last = best.last().map(|&id| scores[id as usize]);
        if score == f32::NEG_INFINITY || (best.len() == top && last.is_none_or(|l| l >= score)) {
            continue;
        }
        let at = best.partition_point(|&other| scores[other as usize] >= score);
        best.insert(at, id);
        best.truncate(top);
    }
    TokenScore {
        logprob: logprob(token),
        top: best.into_iter().map(|id| (id, logprob(id))).collect(),
    }
}
