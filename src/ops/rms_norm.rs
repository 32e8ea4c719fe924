//! Root-mean-square normalisation: `out = weight · x / √(mean(x²) + ε)`, row by row.
//!
//! Source: Zhang and Sennrich 2019, as in Hugging Face `LlamaRMSNorm`.

use super::{BufferId, Shapes, WeightId};
use crate::error::Result;

/// Normalises each row and scales it by a learned vector.
#[derive(Debug, Clone, PartialEq)]
pub struct RmsNorm {
    /// Any rows × columns.
    pub x: BufferId,
    /// `1 × columns`.
    pub weight: WeightId,
    /// Added to the mean square.
    pub epsilon: f32,
    /// As `x`.
    pub out: BufferId,
}

impl RmsNorm {
    pub(super) fn check(&self, shapes: &Shapes) -> Result<()> {
        let x = shapes.spec(self.x)?;
        shapes.buffer(self.out, x.rows, x.columns)?;
        shapes.weight(self.weight, 1, x.columns)
    }
}

/// `x` and `out`: rows of `weight.len()` values.
pub fn reference(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    for (x, out) in x
        .chunks_exact(weight.len())
        .zip(out.chunks_exact_mut(weight.len()))
    {
        let squares: f64 = x.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
        let scale = 1.0 / (squares / x.len() as f64 + f64::from(epsilon)).sqrt();
        for ((out, &x), &w) in out.iter_mut().zip(x).zip(weight) {
            *out = (f64::from(x) * scale * f64::from(w)) as f32;
        }
    }
}
