//! Cutoffs by probability: epsilon keeps tokens of at least ε, eta those of at least
//! `η = min(ε, √ε · e^(−H))`, where H is the entropy; both the best ones anyway.
//! Source: Hewitt et al. 2022; `EpsilonLogitsWarper`, `EtaLogitsWarper`.

use super::{Args, Context, Processor, Scratch, entropy, kth_best, softmax_in_place};
use crate::generation::home::DeviceForm;

/// Removes improbable tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cutoff {
    epsilon: f64,
    follows_entropy: bool,
    keep: usize,
}

impl Cutoff {
    /// Keeps tokens of probability `epsilon`, between 0 and 1, and at least the `keep` best.
    pub fn epsilon(epsilon: f64, keep: usize) -> Self {
        Self {
            epsilon,
            follows_entropy: false,
            keep,
        }
    }

    /// The same with a bound that falls with the entropy.
    pub fn eta(epsilon: f64, keep: usize) -> Self {
        Self {
            follows_entropy: true,
            ..Self::epsilon(epsilon, keep)
        }
    }
}

impl Processor for Cutoff {
    fn name(&self) -> &'static str {
        match self.follows_entropy {
            false => "epsilon_cutoff",
            true => "eta_cutoff",
        }
    }

    fn args(&self) -> Args {
        vec![(self.name(), self.epsilon.into())]
    }

    fn device(&self) -> Option<DeviceForm> {
        let share = self.epsilon as f32;
        (self.keep == 1).then_some(match self.follows_entropy {
            false => DeviceForm::Epsilon(share),
            true => DeviceForm::Eta(share),
        })
    }

    fn process(&self, _: &Context, scores: &mut [f32], scratch: &mut Scratch) {
        let least = kth_best(scores, self.keep, scratch);
        scratch.values.clear();
        scratch.values.extend_from_slice(scores);
        if !softmax_in_place(&mut scratch.values) {
            return;
        }
        let epsilon = self.epsilon as f32;
        let bound = match self.follows_entropy {
            false => epsilon,
            true => epsilon.min(epsilon.sqrt() * (-entropy(&scratch.values)).exp()),
        };
        for (score, probability) in scores.iter_mut().zip(&scratch.values) {
            if *probability < bound && *score < least {
                *score = f32::NEG_INFINITY;
            }
        }
    }
}
