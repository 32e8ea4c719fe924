//! Repetition penalty: a token that occurred before gets `score · penalty` where its score is below 0,
//! and `score / penalty` otherwise. Source: Keskar et al. 2019; `RepetitionPenaltyLogitsProcessor`.

use super::{Context, Processor, Scratch};

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

    fn args(&self) -> Vec<(&'static str, f64)> {
        vec![("repetition_penalty", self.penalty)]
    }

    fn process(&self, context: &Context, scores: &mut [f32], scratch: &mut Scratch) {
        let penalty = self.penalty as f32;
        // A bit for each token, so that a token counts once however often it occurred.
        scratch.seen.clear();
        scratch.seen.resize(scores.len().div_ceil(64), 0);
        for &id in context.ids {
            let (word, bit) = (id as usize / 64, 1 << (id % 64));
            let Some(score) = scores.get_mut(id as usize) else {
                continue;
            };
            if scratch.seen[word] & bit == 0 {
                scratch.seen[word] |= bit;
                *score = if *score < 0.0 {
                    *score * penalty
                } else {
                    *score / penalty
                };
            }
        }
    }
}
