//! Min-p: removes tokens less probable than `min_p` times the most probable token.
//! Source: Nguyen et al. 2024; `MinPLogitsWarper`.

use super::{Args, Context, Processor, Scratch, best_ids, softmax};
use crate::generation::home::DeviceForm;

/// Keeps tokens whose probability is at least a share of the best token's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MinP {
    min_p: f64,
    keep: usize,
}

impl MinP {
    /// Keeps tokens of at least `min_p`, from 0 to 1, times the best token's probability, and at least
    /// the `keep` best.
    pub fn new(min_p: f64, keep: usize) -> Self {
        Self { min_p, keep }
    }
}

impl Processor for MinP {
    fn name(&self) -> &'static str {
        "min_p"
    }

    fn args(&self) -> Args {
        vec![("min_p", self.min_p.into())]
    }

    fn device(&self) -> Option<DeviceForm> {
        (self.keep == 1).then_some(DeviceForm::MinP(self.min_p as f32))
    }

    fn process(&self, _: &Context, scores: &mut [f32], scratch: &mut Scratch) {
        scratch.values.resize(scores.len(), 0.0);
        softmax(scores, &mut scratch.values);
        let probabilities = &scratch.values;
        let best = probabilities.iter().copied().fold(0.0, f32::max);
        let least = self.min_p as f32 * best;
        best_ids(probabilities, self.keep, &mut scratch.order);
        for (id, score) in scores.iter_mut().enumerate() {
            if probabilities[id] < least && !scratch.order.contains(&(id as u32)) {
                *score = f32::NEG_INFINITY;
            }
        }
    }
}
