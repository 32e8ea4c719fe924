//! Repetition penalty: a token that occurred before gets `score · penalty` where its score is below 0,
//! and `score / penalty` otherwise. Source: Keskar et al. 2019; `RepetitionPenaltyLogitsProcessor`.

use super::{Args, Context, Processor, Scratch};
use crate::{
    exec::sample::{Change, Edit},
    generation::home::DeviceForm,
};

/// Makes tokens of prompt and answer less probable (penalty above 1) or more (below 1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RepetitionPenalty {
    penalty: f64,
}

impl RepetitionPenalty {
    /// `penalty` is above 0.
    pub fn new(penalty: f64) -> Self {
        Self { penalty }
    }
}

impl Processor for RepetitionPenalty {
    fn name(&self) -> &'static str {
        "repetition_penalty"
    }

    fn args(&self) -> Args {
        vec![("repetition_penalty", self.penalty.into())]
    }

    fn device(&self) -> Option<DeviceForm> {
        let change = Change::Repetition(self.penalty as f32);
        Some(DeviceForm::edit(Edit::always(change)))
    }

    fn process(&self, context: &Context, scores: &mut [f32], scratch: &mut Scratch) {
        penalise(context.ids, self.penalty as f32, scores, scratch);
    }
}

/// Applies `penalty` once to each token that `ids` hold.
pub(super) fn penalise(ids: &[u32], penalty: f32, scores: &mut [f32], scratch: &mut Scratch) {
    scratch.each_once(ids, scores, |score| {
        *score = if *score < 0.0 {
            *score * penalty
        } else {
            *score / penalty
        };
    });
}
