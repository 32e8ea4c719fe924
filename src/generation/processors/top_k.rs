//! Top-k: removes tokens that score strictly less than the k-th best, so ties with it stay.
//! Source: Fan et al. 2018; `TopKLogitsWarper`.

use super::{Args, Context, Processor, Scratch, kth_best};
use crate::generation::home::DeviceForm;

/// Keeps the k best tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopK {
    k: usize,
    keep: usize,
}

impl TopK {
    /// Keeps the `k` best tokens, at least `keep`.
    pub fn new(k: usize, keep: usize) -> Self {
        Self { k, keep }
    }
}

impl Processor for TopK {
    fn name(&self) -> &'static str {
        "top_k"
    }

    fn args(&self) -> Args {
        vec![("top_k", self.k.into())]
    }

    fn device(&self) -> Option<DeviceForm> {
        Some(DeviceForm::TopK(self.k.max(self.keep)))
    }

    fn process(&self, _: &Context, scores: &mut [f32], scratch: &mut Scratch) {
        let k = self.k.max(self.keep);
        if k >= scores.len() {
            return;
        }
        let last = kth_best(scores, k, scratch);
        for score in scores.iter_mut().filter(|score| **score < last) {
            *score = f32::NEG_INFINITY;
        }
    }
}
