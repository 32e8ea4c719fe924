//! Frequency and presence penalty: taken from the score of a token for each time that the answer has it, or
//! once. The prompt does not count. Extensions; source: OpenAI's API.

use super::{Args, Context, Processor, Scratch};
use crate::{
    exec::sample::{Change, Edit},
    generation::home::DeviceForm,
};

/// Makes a token less probable (penalty above 0) the more often the answer has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrequencyPenalty {
    penalty: f64,
}

/// Makes a token less probable (penalty above 0) once the answer has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PresencePenalty {
    penalty: f64,
}

impl FrequencyPenalty {
    /// Takes `penalty` for each occurrence.
    pub fn new(penalty: f64) -> Self {
        Self { penalty }
    }
}

impl PresencePenalty {
    /// Takes `penalty` once.
    pub fn new(penalty: f64) -> Self {
        Self { penalty }
    }
}

impl Processor for FrequencyPenalty {
    fn name(&self) -> &'static str {
        "frequency_penalty"
    }

    fn args(&self) -> Args {
        vec![("frequency_penalty", self.penalty.into())]
    }

    fn device(&self) -> Option<DeviceForm> {
        let change = Change::Frequency(self.penalty as f32);
        Some(DeviceForm::edit(Edit::always(change)))
    }

    fn process(&self, context: &Context, scores: &mut [f32], _: &mut Scratch) {
        for id in context.answer() {
            if let Some(score) = scores.get_mut(*id as usize) {
                *score -= self.penalty as f32;
            }
        }
    }
}

impl Processor for PresencePenalty {
    fn name(&self) -> &'static str {
        "presence_penalty"
    }

    fn args(&self) -> Args {
        vec![("presence_penalty", self.penalty.into())]
    }

    fn device(&self) -> Option<DeviceForm> {
        let change = Change::Presence(self.penalty as f32);
        Some(DeviceForm::edit(Edit::always(change)))
    }

    fn process(&self, context: &Context, scores: &mut [f32], scratch: &mut Scratch) {
        let penalty = self.penalty as f32;
        scratch.each_once(context.answer(), scores, |score| *score -= penalty);
    }
}
