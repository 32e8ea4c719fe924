//! Linear layer: `out = x · weightᵀ [+ bias] [+ residual]`.

use super::{BufferId, Shapes, WeightId};
use crate::{error::Result, tensor::Matrix};

/// Multiplies each row by a weight matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct MatMul {
    /// Any rows × inputs.
    pub x: BufferId,
    /// `outputs × inputs`.
    pub weight: WeightId,
    /// `1 × outputs`, added to every row.
    pub bias: Option<WeightId>,
    /// Rows × outputs, added to the result; may be `out` itself.
    pub residual: Option<BufferId>,
    /// Rows × outputs.
    pub out: BufferId,
}

impl MatMul {
    pub(super) fn check(&self, shapes: &Shapes) -> Result<()> {
        let (x, out) = (shapes.spec(self.x)?, shapes.spec(self.out)?);
        shapes.buffer(self.out, x.rows, out.columns)?;
        shapes.weight(self.weight, out.columns, x.columns)?;
        if let Some(bias) = self.bias {
            shapes.weight(bias, 1, out.columns)?;
        }
        self.residual.map_or(Ok(()), |residual| {
            shapes.buffer(residual, x.rows, out.columns)
        })
    }
}

/// `x`: rows of `weight.columns`; `out`: as many rows of `weight.rows`, and holds the residual (or
/// zeros) on entry. `bias`: `weight.rows` values.
pub fn reference(x: &[f32], weight: Matrix, bias: Option<&[f32]>, out: &mut [f32]) {
    let mut values = vec![0.0; weight.columns];
    for output in 0..weight.rows {
        weight.row(output, &mut values);
        let bias = bias.map_or(0.0, |bias| f64::from(bias[output]));
        for (x, out) in x
            .chunks_exact(weight.columns)
            .zip(out.chunks_exact_mut(weight.rows))
        {
            out[output] = (dot(x, &values) + bias + f64::from(out[output])) as f32;
        }
    }
}

/// `Σ a·b` in f64.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(&a, &b)| f64::from(a) * f64::from(b))
        .sum()
}
