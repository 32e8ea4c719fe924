//! "Exclude top choices": now and then removes all tokens of at least a probability except the least
//! probable of them. An extension; source: the XTC sampler of text-generation-webui (p-e-w, 2024).

use super::{Args, Context, Processor, Scratch, softmax_in_place};
use crate::generation::selection::{philox4x32, uniform};

/// Removes the top choices in some steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Xtc {
    /// How often, from 0 to 1.
    pub probability: f64,
    /// The least probability of a top choice, from 0 to 1.
    pub threshold: f64,
    /// Key of the random numbers.
    pub seed: u64,
}

/// Tells the draws apart from those that choose tokens.
const STREAM: u32 = 1;

impl Xtc {
    fn draws(&self, context: &Context) -> bool {
        let counter = [
            0,
            context.new_tokens() as u32,
            context.sequence as u32,
            STREAM,
        ];
        let key = [self.seed as u32, (self.seed >> 32) as u32];
        uniform(philox4x32(counter, key)[0]) < self.probability
    }
}

impl Processor for Xtc {
    fn name(&self) -> &'static str {
        "xtc_probability"
    }

    fn args(&self) -> Args {
        vec![
            ("xtc_probability", self.probability.into()),
            ("xtc_threshold", self.threshold.into()),
        ]
    }

    fn process(&self, context: &Context, scores: &mut [f32], scratch: &mut Scratch) {
        scratch.values.clear();
        scratch.values.extend_from_slice(scores);
        if !self.draws(context) || !softmax_in_place(&mut scratch.values) {
            return;
        }
        let probabilities = &scratch.values;
        let is_top = |id: &usize| f64::from(probabilities[*id]) >= self.threshold;
        let removed = |id: usize| scores[id] == f32::NEG_INFINITY;
        let tops = (0..scores.len()).filter(|id| is_top(id) && !removed(*id));
        // The higher id among equal ones stays, as the last of a sorted list does.
        let stays = tops.min_by(|a, b| {
            probabilities[*a]
                .total_cmp(&probabilities[*b])
                .then(b.cmp(a))
        });
        for id in (0..scores.len()).filter(is_top) {
            if Some(id) != stays {
                scores[id] = f32::NEG_INFINITY;
            }
        }
    }
}
