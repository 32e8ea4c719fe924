//! What a call gives: tokens as they come, and the whole at the end.

use super::{
    candidates::Speculation,
    plan::Plan,
    sequence::TokenScore,
    stats::{Timings, Usage},
    stopping::StopReason,
};
use crate::exec::KernelTime;

/// A token, as soon as it is chosen. Beam search chooses late: a prompt's tokens come together, once its
/// answers are final.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Which answer it belongs to: its place in the output's lists.
    pub sequence: usize,
    /// The token.
    pub token_id: u32,
    /// Text that became certain with it: empty while a character or a possible stop string is
    /// unfinished, everything held back with the last token. The texts of a sequence join to its text,
    /// unless it is stopped from outside: what was held back then is in the output alone.
    pub text: String,
    /// Its log-probability, if that was asked for.
    pub score: Option<TokenScore>,
}

/// What a call produced. The lists have an entry for each answer: of the first prompt all, best first
/// where beam search ranked them, then of the second.
#[derive(Debug, Clone)]
pub struct Output {
    /// New ids, end tokens included.
    pub sequences: Vec<Vec<u32>>,
    /// Their text, without end token, special tokens and stop string.
    pub texts: Vec<String>,
    /// Why each ended.
    pub stop_reasons: Vec<StopReason>,
    /// The scores by which beam search ranked them: sums of log-probabilities, divided by the length to
    /// the power of `length_penalty`.
    pub sequences_scores: Option<Vec<f32>>,
    /// For each token the row it was chosen from, in beam search: prompt × beams + beam.
    pub beam_indices: Option<Vec<Vec<usize>>>,
    /// For each token its log-probability and those of the best, with `top_logprobs`.
    pub token_scores: Option<Vec<Vec<TokenScore>>>,
    /// For each token its processed score, with `output_scores`: in beam search its log-probability.
    pub transition_scores: Option<Vec<Vec<f32>>>,
    /// Processed scores by row, step and id, with `output_scores`. Rows are answers, in beam search
    /// beams; a row has no steps after its end. Only the first call of `finish` gives them.
    pub scores: Option<Vec<Vec<Vec<f32>>>>,
    /// Logits, as the scores, with `output_logits`.
    pub logits: Option<Vec<Vec<Vec<f32>>>>,
    /// What became of drafts, where there were any.
    pub speculation: Option<Speculation>,
    /// Tokens read and written.
    pub usage: Usage,
    /// Where the time went.
    pub timings: Timings,
    /// Where the device's time went, the longest first, if that was asked for. What was computed for nobody
    /// is no part of it, nor what another model proposed.
    pub kernels: Option<Vec<KernelTime>>,
    /// What was done.
    pub plan: Plan,
}

/// What a pull led to.
#[derive(Debug, Clone, PartialEq)]
pub enum Pull {
    /// A token.
    Token(Event),
    /// A step was computed, and no token is certain yet.
    Nothing,
    /// All sequences have ended.
    End,
}
