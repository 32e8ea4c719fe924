//! Gated linear layer: `out = activation(x · gateᵀ [+ bias]) · (x · upᵀ [+ bias])`, element by element.
//!
//! Source: Shazeer 2020, "GLU Variants Improve Transformer".

use super::{Activation, BufferId, Shapes, WeightId, matmul::dot};
use crate::{error::Result, tensor::Matrix};

/// Two linear layers over the same input, joined by an activation.
#[derive(Debug, Clone, PartialEq)]
pub struct GatedMatMul {
    /// Any rows × inputs.
    pub x: BufferId,
    /// `outputs × inputs`, the branch that is activated.
    pub gate: WeightId,
    /// `outputs × inputs`.
    pub up: WeightId,
    /// `1 × outputs` each: what is added to the gate before it is activated, and to the other branch.
    pub biases: [Option<WeightId>; 2],
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
        shapes.weight(self.up, out.columns, x.columns)?;
        let mut biases = self.biases.iter().flatten();
        biases.try_for_each(|&bias| shapes.weight(bias, 1, out.columns))
    }
}

/// `x`: rows of `gate.columns`; `out`: as many rows of `gate.rows`. `biases`: `gate.rows` values each.
pub fn reference(
    x: &[f32],
    gate: Matrix,
    up: Matrix,
    biases: [Option<&[f32]>; 2],
    activation: Activation,
    out: &mut [f32],
) {
    let mut gates = vec![0.0; gate.columns];
    let mut ups = vec![0.0; up.columns];
    for output in 0..gate.rows {
        gate.row(output, &mut gates);
        up.row(output, &mut ups);
        let [gate_bias, up_bias] =
            biases.map(|bias| bias.map_or(0.0, |bias| f64::from(bias[output])));
        for (x, out) in x
            .chunks_exact(gate.columns)
            .zip(out.chunks_exact_mut(gate.rows))
        {
            let gated = activation.apply(dot(x, &gates) + gate_bias);
            out[output] = (gated * (dot(x, &ups) + up_bias)) as f32;
        }
    }
}
