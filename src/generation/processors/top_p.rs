//! Top-p (nucleus): keeps the smallest set of best tokens whose probabilities reach `p`.
//!
//! As `TopPLogitsWarper` has it: in ascending order of scores, a token is removed while the running sum
//! of probabilities is at most `1 − p`; the last `keep` stay. Source: Holtzman et al. 2020.

use super::{Args, Context, Processor, Scratch, softmax};
use crate::generation::home::{DeviceForm, LEAST_REMOVED};

/// Keeps the most probable tokens that together have probability `p`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopP {
    p: f64,
    keep: usize,
}

impl TopP {
    /// Keeps tokens of probability `p`, from 0 to 1, at least `keep` of them.
    pub fn new(p: f64, keep: usize) -> Self {
        Self { p, keep }
    }
}

impl Processor for TopP {
    fn name(&self) -> &'static str {
        "top_p"
    }

    fn args(&self) -> Args {
        vec![("top_p", self.p.into())]
    }

    fn device(&self) -> Option<DeviceForm> {
        let fits = self.keep == 1 && 1.0 - self.p >= LEAST_REMOVED;
        fits.then_some(DeviceForm::Removable((1.0 - self.p) as f32))
    }

    fn process(&self, _: &Context, scores: &mut [f32], scratch: &mut Scratch) {
        scratch.values.resize(scores.len(), 0.0);
        softmax(scores, &mut scratch.values);
        // Removed tokens have probability 0: only what is left needs sorting, often few.
        let left = (0..scores.len() as u32).filter(|&id| scores[id as usize] != f32::NEG_INFINITY);
        scratch.order.clear();
        scratch.order.extend(left);
        scratch.order.sort_unstable_by(|&a, &b| {
            scores[a as usize]
                .total_cmp(&scores[b as usize])
                .then(a.cmp(&b))
        });
        let removable = scratch.order.len().saturating_sub(self.keep);
        let most = (1.0 - self.p) as f32;
        let mut sum = 0.0f64;
        for &id in &scratch.order[..removable] {
            sum += f64::from(scratch.values[id as usize]);
            // NaN compares false: a row without a distribution is left for the selection to refuse.
            if sum as f32 <= most {
                scores[id as usize] = f32::NEG_INFINITY;
            } else {
                break;
            }
        }
    }
}
