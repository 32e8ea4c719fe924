//! Typical sampling: keeps the tokens whose surprise `−ln p` is nearest to the entropy, the smallest set of
//! them that has a probability. Source: Meister et al. 2022; `TypicalLogitsWarper`.

use super::{Args, Context, Processor, Scratch, entropy, softmax_in_place};
use crate::generation::home::{DeviceForm, LEAST_REMOVED};

/// Keeps the most typical tokens that together have probability `mass`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Typical {
    mass: f64,
    keep: usize,
}

impl Typical {
    /// Keeps tokens of probability `mass`, above 0 and at most 1, at least `keep` of them.
    pub fn new(mass: f64, keep: usize) -> Self {
        Self { mass, keep }
    }
}

impl Processor for Typical {
    fn name(&self) -> &'static str {
        "typical_p"
    }

    fn args(&self) -> Args {
        vec![("typical_p", self.mass.into())]
    }

    fn device(&self) -> Option<DeviceForm> {
        let fits = self.keep == 1 && 1.0 - self.mass >= LEAST_REMOVED;
        fits.then_some(DeviceForm::Typical(self.mass as f32))
    }

    fn process(&self, _: &Context, scores: &mut [f32], scratch: &mut Scratch) {
        scratch.values.clear();
        scratch.values.extend_from_slice(scores);
        if !softmax_in_place(&mut scratch.values) {
            return;
        }
        let probabilities = &scratch.values;
        let entropy = entropy(probabilities);
        let distance = |id: u32| match probabilities[id as usize] {
            p if p > 0.0 => (-p.ln() - entropy).abs(),
            _ => f32::INFINITY,
        };
        let nearer = |a: &u32, b: &u32| distance(*a).total_cmp(&distance(*b)).then(a.cmp(b));
        scratch.order.clear();
        scratch.order.extend(0..scores.len() as u32);
        scratch.order.sort_unstable_by(nearer);
        let mut sum = 0.0f64;
        let below = scratch.order.iter().take_while(|&&id| {
            sum += f64::from(probabilities[id as usize]);
            (sum as f32) < self.mass as f32
        });
        let last = below.count().min(scores.len() - 1);
        let bound = distance(scratch.order[last]);
        for &id in &scratch.order[self.keep.min(scores.len())..] {
            if distance(id) > bound {
                scores[id as usize] = f32::NEG_INFINITY;
            }
        }
    }
}
