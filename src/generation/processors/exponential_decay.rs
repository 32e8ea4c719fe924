//! Exponential decay of length: from a length on, the score s of end tokens grows by `|s| · (factorᵏ − 1)`
//! in the k-th step. Source: `ExponentialDecayLengthPenalty`.

use super::{Args, Context, Processor, Scratch};
use crate::{
    exec::sample::{Change, Edit},
    generation::{home::DeviceForm, value::Value},
};

/// Favours the end of the answer more and more.
#[derive(Debug, Clone, PartialEq)]
pub struct ExponentialDecay {
    start: usize,
    factor: f64,
    eos: Vec<u32>,
}

impl ExponentialDecay {
    /// Favours `eos` by `factor`, above 0, once the answer has more than `start` tokens.
    pub fn new((start, factor): (usize, f64), eos: &[u32]) -> Self {
        Self {
            start,
            factor,
            eos: eos.to_vec(),
        }
    }
}

impl Processor for ExponentialDecay {
    fn name(&self) -> &'static str {
        "exponential_decay_length_penalty"
    }

    fn args(&self) -> Args {
        let pair = vec![self.start.into(), self.factor.into()];
        vec![
            ("exponential_decay_length_penalty", Value::List(pair)),
            ("eos_token_id", self.eos.as_slice().into()),
        ]
    }

    fn device(&self) -> Option<DeviceForm> {
        let change = Change::Grow {
            ids: self.eos.clone(),
            start: u32::try_from(self.start).unwrap_or(u32::MAX),
            factor: self.factor as f32,
        };
        Some(DeviceForm::edit(Edit::always(change)))
    }

    fn process(&self, context: &Context, scores: &mut [f32], _: &mut Scratch) {
        let steps = context.new_tokens().saturating_sub(self.start);
        if steps == 0 {
            return;
        }
        let growth = self.factor.powi(steps.try_into().unwrap_or(i32::MAX)) - 1.0;
        for id in &self.eos {
            match scores.get_mut(*id as usize) {
                // A removed token stays removed.
                Some(score) if score.is_finite() => {
                    let grown = f64::from(*score) + f64::from(score.abs()) * growth;
                    *score = grown.min(f32::MAX.into()) as f32;
                }
                _ => {}
            }
        }
    }
}
