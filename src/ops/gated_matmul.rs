//! Gated linear layer: `out = activation(x · gateᵀ) · (x · upᵀ)`, element by element.
//!
//! Source: Shazeer 2020, "GLU Variants Improve Transformer".

use super::{BufferId, Shapes, WeightId, matmul::dot};
use crate::{error::Result, tensor::Matrix};

/// What is applied to the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x / (1 + e⁻ˣ)`.
    Silu,
}

impl Activation {
    /// The activation of one value.
    pub fn apply(self, x: f64) -> f64 {
        match self {
            Self::Silu => x / (1.0 + (-x).exp()),
        }
    }
}

/// Two linear layers over the same input, joined by an activation.
#[derive(Debug, Clone, PartialEq)]
pub struct GatedMatMul {
    /// Any rows × inputs.
    pub x: BufferId,
    /// `outputs × inputs`, the branch that is activated.
    pub gate: WeightId,
    /// `outputs × inputs`.
    pub up: WeightId,
    /// Applied to the gate.
    pub activation: Activation,
    /// Rows × outputs.
    pub out: BufferId,
}

impl GatedMatMul {
    pub(super) fn check(&self, shapes: &Shapes) -> Result<()> {
        let (x, out) = (shapes.spec(self.x)?, shapes.spec(self.out)?);
        shapes.buffer(self.out, x.rows, out.columns)?;
        shapes.weight(self.gate, out.columns, x.columns)?;
        shapes.weight(self.up, out.columns, x.columns)
    }
}

/// `x`: rows of `gate.columns`; `out`: as many rows of `gate.rows`.
pub fn reference(x: &[f32], gate: Matrix, up: Matrix, activation: Activation, out: &mut [f32]) {
    let mut gates = vec![0.0; gate.columns];
    let mut ups = vec![0.0; up.columns];
    for output in 0..gate.rows {
        gate.row(output, &mut gates);
        up.row(output, &mut ups);
        for (x, out) in x
            .chunks_exact(gate.columns)
            .zip(out.chunks_exact_mut(gate.rows))
        {
            out[output] = (activation.apply(dot(x, &gates)) * dot(x, &ups)) as f32;
        }
    }
}
