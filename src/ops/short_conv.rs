//! Short convolution: each channel over the last few positions of its sequence, between two gates.
//!
//! A row is three parts of equal width, `b`, `c` and `x`. With `u = b ⊙ x`, position by position and channel
//! by channel: `out = c ⊙ (Σᵢ wᵢ u[position − i] + bias)` over `i < taps`, and `u` is 0 before the sequence
//! begins. Source: Hugging Face `Lfm2ShortConv`.
//!
//! Each row leaves its `u` in the cache, and takes those of earlier positions from there, also where they are
//! rows of the same step: so it makes no difference how a prompt is cut into steps.

use super::{BufferId, Rows, Shapes, WeightId};
use crate::error::{Error, Result};

/// The convolution of one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct ShortConv {
    /// Tokens × 3·width: the gate before, the gate after, and what is convolved.
    pub x: BufferId,
    /// 1 × width·taps: for each channel the factors of positions, that of the row's own last.
    pub weight: WeightId,
    /// 1 × width, added before the second gate.
    pub bias: Option<WeightId>,
    /// Positions that a row sees, its own among them.
    pub taps: usize,
    /// Which of the cache's layers that convolve.
    pub layer: usize,
    /// Tokens × width.
    pub out: BufferId,
}

impl ShortConv {
    pub(super) fn check(&self, shapes: &Shapes) -> Result<()> {
        let (cache, width) = (shapes.cache, shapes.cache.conv_width);
        if self.layer >= cache.conv_layers || self.taps == 0 {
            return Err(Error::internal(format!(
                "a convolution of {} positions in layer {} over {cache:?}",
                self.taps, self.layer
            )));
        }
        shapes.buffer(self.x, Rows::Tokens, 3 * width)?;
        shapes.weight(self.weight, 1, width * self.taps)?;
        if let Some(bias) = self.bias {
            shapes.weight(bias, 1, width)?;
        }
        shapes.buffer(self.out, Rows::Tokens, width)
    }
}

/// What a row leaves in the cache: `b ⊙ x`.
pub fn gated(row: &[f32]) -> Vec<f32> {
    let width = row.len() / 3;
    let pairs = row[..width].iter().zip(&row[2 * width..]);
    pairs.map(|(b, x)| b * x).collect()
}

/// One row of `3 · width`. `earlier`: what the positions before it left, the nearest first; fewer than
/// `taps − 1` at the beginning of a sequence.
pub fn reference(
    row: &[f32],
    earlier: &[&[f32]],
    weight: &[f32],
    bias: Option<&[f32]>,
    out: &mut [f32],
) {
    let width = out.len();
    let taps = weight.len() / width;
    let own = gated(row);
    for (channel, out) in out.iter_mut().enumerate() {
        let factors = &weight[channel * taps..][..taps];
        let seen = std::iter::once(own[channel]).chain(earlier.iter().map(|u| u[channel]));
        let products = factors.iter().rev().zip(seen);
        let sum: f64 = products.map(|(&w, u)| f64::from(w) * f64::from(u)).sum();
        let bias = bias.map_or(0.0, |bias| f64::from(bias[channel]));
        *out = (f64::from(row[width + channel]) * (sum + bias)) as f32;
    }
}
