//! Logit bias: a number added to the score of a token, always. An extension; source: the `logit_bias` of
//! OpenAI's API.

use super::{Args, Context, Processor, Scratch};
use crate::{
    exec::sample::{Change, Edit},
    generation::{home::DeviceForm, value::Value},
};

/// Makes tokens more probable (bias above 0) or less (below 0).
#[derive(Debug, Clone, PartialEq)]
pub struct LogitBias {
    biases: Vec<(u32, f64)>,
}

impl LogitBias {
    /// `biases` of tokens.
    pub fn new(biases: &[(u32, f64)]) -> Self {
        Self {
            biases: biases.to_vec(),
        }
    }
}

impl Processor for LogitBias {
    fn name(&self) -> &'static str {
        "logit_bias"
    }

    fn args(&self) -> Args {
        let entries = self
            .biases
            .iter()
            .map(|(id, bias)| (id.to_string(), Value::Number(*bias)));
        vec![("logit_bias", Value::Object(entries.collect()))]
    }

    fn device(&self) -> Option<DeviceForm> {
        let biases = self.biases.iter().map(|&(id, bias)| (id, bias as f32));
        let change = Change::Add(biases.collect());
        Some(DeviceForm::edit(Edit::always(change)))
    }

    fn process(&self, _: &Context, scores: &mut [f32], _: &mut Scratch) {
        for (id, bias) in &self.biases {
            if let Some(score) = scores.get_mut(*id as usize) {
                *score += *bias as f32;
            }
        }
    }
}
