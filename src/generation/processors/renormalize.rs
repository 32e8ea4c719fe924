//! Renormalisation: scores become log-probabilities. Source: `LogitNormalization`.

use super::{Args, Context, Processor, Scratch, log_softmax};

/// Makes the scores log-probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renormalize;

impl Processor for Renormalize {
    fn name(&self) -> &'static str {
        "renormalize_logits"
    }

    fn args(&self) -> Args {
        vec![("renormalize_logits", true.into())]
    }

    fn process(&self, _: &Context, scores: &mut [f32], _: &mut Scratch) {
        log_softmax(scores);
    }
}
