//! The caller's own functions: they see a sequence at each step and may change the scores of its next
//! token, restrict that token, or end the sequence.
//!
//! They may take their time, since they can live on another thread. None of them replaces anything: they
//! run beside what the configuration asks for, each at its place.

use crate::{error::Result, exec::LocalFuture};

/// The functions of one call.
pub trait Callbacks {
    /// How many there are of each kind.
    fn functions(&self) -> Functions;

    /// The scores that processor `index` makes of `scores`, one for each token.
    fn process<'a>(&'a self, index: usize, seen: Seen<'a>) -> LocalFuture<'a, Result<Vec<f32>>>;

    /// The tokens that may follow `ids`, which go on from the prompt at place `prompt`.
    fn allowed_tokens<'a>(
        &'a self,
        prompt: usize,
        ids: &'a [u32],
    ) -> LocalFuture<'a, Result<Vec<u32>>>;

    /// Whether criterion `index` ends the sequence, whose last id was chosen by `scores`.
    fn stops<'a>(&'a self, index: usize, seen: Seen<'a>) -> LocalFuture<'a, Result<bool>>;
}

/// How many functions there are of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Functions {
    /// Functions that change scores, `logits_processor`.
    pub processors: usize,
    /// Functions that end sequences, `stopping_criteria`.
    pub criteria: usize,
    /// Whether a function restricts tokens, `prefix_allowed_tokens_fn`.
    pub allowed_tokens: bool,
}

/// What a function sees.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The sequence's index in the call.
    pub sequence: usize,
    /// Prompt and answer so far.
    pub ids: &'a [u32],
    /// Scores of the step.
    pub scores: &'a [f32],
}
