//! Top-nσ: keeps tokens whose score is at most n standard deviations below the best, counted over the
//! tokens that are left. An extension; source: Tang et al. 2024, "Top-nσ: Not All Logits Are You Need".

use super::{Args, Context, Processor, Scratch};

/// Keeps tokens near the best in units of the standard deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopNSigma {
    n: f64,
}

impl TopNSigma {
    /// Keeps tokens within `n`, above 0, standard deviations.
    pub fn new(n: f64) -> Self {
        Self { n }
    }
}

impl Processor for TopNSigma {
    fn name(&self) -> &'static str {
        "top_n_sigma"
    }

    fn args(&self) -> Args {
        vec![("top_n_sigma", self.n.into())]
    }

    fn process(&self, _: &Context, scores: &mut [f32], _: &mut Scratch) {
        let left = || scores.iter().filter(|score| **score != f32::NEG_INFINITY);
        let count = left().count().max(1) as f64;
        let mean = left().map(|&score| f64::from(score)).sum::<f64>() / count;
        let squares = left().map(|&score| (f64::from(score) - mean).powi(2));
        let deviation = (squares.sum::<f64>() / count).sqrt();
        let best = left().copied().fold(f32::NEG_INFINITY, f32::max);
        let least = f64::from(best) - self.n * deviation;
        // NaN compares false: a row without a distribution is left as it is.
        for score in scores.iter_mut().filter(|score| f64::from(**score) < least) {
            *score = f32::NEG_INFINITY;
        }
    }
}
