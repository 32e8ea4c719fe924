//! Linear layer: `out = activation(scale · (x · weightᵀ [+ bias])) [+ residual]`.

use super::{BufferId, Shapes, WeightId};
use crate::{
    error::{Error, Result},
    tensor::Matrix,
};

/// Multiplies each row by a weight matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct MatMul {
    /// Any rows × inputs.
    pub x: BufferId,
    /// `outputs × inputs`.
    pub weight: WeightId,
    /// `1 × outputs`, added to every row.
    pub bias: Option<WeightId>,
    /// What product and bias are multiplied by; not 0.
    pub scale: f32,
    /// What is applied then; not together with a residual.
    pub activation: Option<Activation>,
    /// Rows × outputs, added to the result; may be `out` itself.
    pub residual: Option<BufferId>,
    /// Rows × outputs.
    pub out: BufferId,
}

/// A function of one value. `Φ` is the distribution function of the standard normal distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// `x / (1 + e⁻ˣ)`.
    Silu,
    /// `x · Φ(x)`. Source: Hendrycks and Gimpel 2016.
    Gelu,
    /// `x/2 · (1 + tanh(√(2/π) · (x + 0.044715·x³)))`, the usual approximation of it.
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)²`.
    ReluSquared,
    /// `c · tanh(x / c)`, which keeps values below `c` in magnitude.
    SoftCap(f32),
}

impl Activation {
    /// The activation of one value.
    pub fn apply(self, x: f64) -> f64 {
        match self {
            Self::Silu => x / (1.0 + (-x).exp()),
            Self::Gelu => x * (0.5 + 0.5 * erf(x * std::f64::consts::FRAC_1_SQRT_2)),
            Self::GeluTanh => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
                x / 2.0 * (1.0 + inner.tanh())
            }
            Self::Relu if x < 0.0 => 0.0,
            Self::Relu => x,
            Self::ReluSquared => Self::Relu.apply(x).powi(2),
            Self::SoftCap(cap) => f64::from(cap) * (x / f64::from(cap)).tanh(),
        }
    }
}

/// The error function, by the series `2/√π · e^(−x²) · Σ 2ⁿ x²ⁿ⁺¹ / (1·3·5…(2n+1))`, whose terms all
/// have one sign. Source: Abramowitz and Stegun 1964, 7.1.6.
fn erf(x: f64) -> f64 {
    // From here on it is 1 to the last bit.
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp() * sum
}

impl MatMul {
    pub(super) fn check(&self, shapes: &Shapes) -> Result<()> {
        let (x, out) = (shapes.spec(self.x)?, shapes.spec(self.out)?);
        shapes.buffer(self.out, x.rows, out.columns)?;
        shapes.weight(self.weight, out.columns, x.columns)?;
        if let Some(bias) = self.bias {
            shapes.weight(bias, 1, out.columns)?;
        }
        let Some(residual) = self.residual else {
            return Ok(());
        };
        // A sum begins with the residual, so it cannot pass through a function afterwards.
        if self.activation.is_some() || self.scale == 0.0 {
            return Err(Error::internal(format!(
                "{}: an activated or vanishing product joins no residual",
                out.name
            )));
        }
        shapes.buffer(residual, x.rows, out.columns)
    }
}

/// `x`: rows of `weight.columns`; `out`: as many rows of `weight.rows`, and holds the residual (or
/// zeros) on entry. `bias`: `weight.rows` values.
pub fn reference(
    x: &[f32],
    weight: Matrix,
    bias: Option<&[f32]>,
    scale: f32,
    activation: Option<Activation>,
    out: &mut [f32],
) {
    let mut values = vec![0.0; weight.columns];
    for output in 0..weight.rows {
        weight.row(output, &mut values);
        let bias = bias.map_or(0.0, |bias| f64::from(bias[output]));
        for (x, out) in x
            .chunks_exact(weight.columns)
            .zip(out.chunks_exact_mut(weight.rows))
        {
            let y = f64::from(scale) * (dot(x, &values) + bias);
            let y = activation.map_or(y, |activation| activation.apply(y));
            out[output] = (y + f64::from(out[output])) as f32;
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
