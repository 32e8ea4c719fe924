//! Normalisation of each row, or of each of its groups: `out [+]= weight · y / √(mean(y²) + ε) [+ bias]`
//! with `y = x`, or `y = x − mean(x)` where it is centred.
//!
//! Source: Zhang and Sennrich 2019 for the root mean square, as in Hugging Face `LlamaRMSNorm`; Ba et
//! al. 2016 for the centred form, as in PyTorch's `LayerNorm`.

use super::{BufferId, Shapes, WeightId};
use crate::error::{Error, Result};

/// Normalises groups of values and scales them by a learned vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Norm {
    /// Any rows × columns.
    pub x: BufferId,
    /// Groups of a row that are normalised each by itself: 1, or heads.
    pub groups: usize,
    /// Whether the mean is taken away first.
    pub centred: bool,
    /// `1 × columns / groups`, the same for every group, or `1 × columns`.
    pub weight: WeightId,
    /// As `weight`, added at the end.
    pub bias: Option<WeightId>,
    /// Added to the mean square.
    pub epsilon: f32,
    /// Whether the result is added to what `out` holds.
    pub add: bool,
    /// As `x`.
    pub out: BufferId,
}

impl Norm {
    pub(super) fn check(&self, shapes: &Shapes) -> Result<()> {
        let x = shapes.spec(self.x)?;
        shapes.buffer(self.out, x.rows, x.columns)?;
        if self.groups == 0 || !x.columns.is_multiple_of(self.groups) {
            return Err(Error::internal(format!(
                "{}: {} values are not {} groups",
                x.name, x.columns, self.groups
            )));
        }
        let whole = shapes.weight(self.weight, 1, x.columns);
        let columns = match whole {
            Ok(()) => x.columns,
            Err(_) => x.columns / self.groups,
        };
        shapes.weight(self.weight, 1, columns)?;
        let bias = self.bias.map(|bias| shapes.weight(bias, 1, columns));
        bias.unwrap_or(Ok(()))
    }
}

/// `x` and `out`: groups of `size` values; `out` holds what is added to, or zeros, on entry. `weight` and
/// `bias`: one group's values, or those of as many groups as a row has.
pub fn reference(
    x: &[f32],
    size: usize,
    centred: bool,
    weight: &[f32],
    bias: Option<&[f32]>,
    epsilon: f32,
    out: &mut [f32],
) {
    let groups = x.chunks_exact(size).zip(out.chunks_exact_mut(size));
    for (group, (x, out)) in groups.enumerate() {
        let count = size as f64;
        let mean = match centred {
            true => x.iter().map(|&v| f64::from(v)).sum::<f64>() / count,
            false => 0.0,
        };
        let squares: f64 = x.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum();
        let scale = 1.0 / (squares / count + f64::from(epsilon)).sqrt();
        for (i, (out, &x)) in out.iter_mut().zip(x).enumerate() {
            let at = (group * size + i) % weight.len();
            let bias = bias.map_or(0.0, |bias| f64::from(bias[at]));
            let y = (f64::from(x) - mean) * scale * f64::from(weight[at]) + bias;
            *out = (f64::from(*out) + y) as f32;
        }
    }
}
