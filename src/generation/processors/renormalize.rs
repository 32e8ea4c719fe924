//! Renormalisation: scores become log-probabilities. Source: `LogitNormalization`.

use super::{Args, Context, Processor, Scratch, log_softmax};
use crate::generation::home::DeviceForm;

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

    fn device(&self) -> Option<DeviceForm> {
        Some(DeviceForm::Shift)
    }

    fn process(&self, _: &Context, scores: &mut [f32], _: &mut Scratch) {
        log_softmax(scores);
    }
}
