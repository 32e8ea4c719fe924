//! Repetition penalty of the prompt, with the inverse of its value: above 1, tokens of the prompt become
//! *more* probable. Source: `EncoderRepetitionPenaltyLogitsProcessor`, which a model without an encoder
//! gives its prompt.

use super::{Args, Context, Processor, Scratch, repetition_penalty::penalise};

/// Favours tokens of the prompt (penalty above 1) or avoids them (below 1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EncoderRepetitionPenalty {
    penalty: f64,
}

impl EncoderRepetitionPenalty {
    /// `penalty` is above 0.
    pub fn new(penalty: f64) -> Self {
        Self { penalty }
    }
}

impl Processor for EncoderRepetitionPenalty {
    fn name(&self) -> &'static str {
        "encoder_repetition_penalty"
    }

    fn args(&self) -> Args {
        vec![("encoder_repetition_penalty", self.penalty.into())]
    }

    fn process(&self, context: &Context, scores: &mut [f32], scratch: &mut Scratch) {
        penalise(
            context.prompt(),
            (1.0 / self.penalty) as f32,
            scores,
            scratch,
        );
    }
}
