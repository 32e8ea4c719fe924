//! A mixture of gated feed-forward layers:
//! `out += Σ weight · (activation(x · gateᵀ) · (x · upᵀ)) · downᵀ` over the experts of a row's route.
//!
//! Only the matrices of chosen experts are read. Source: Shazeer et al. 2017; Hugging Face
//! `Qwen3MoeExperts`.

use super::{Activation, BufferId, Rows, Shapes, WeightId, matmul::dot};
use crate::{
    error::{Error, Result},
    tensor::Matrix,
};

/// The chosen experts' feed-forward layers, weighed and added.
#[derive(Debug, Clone, PartialEq)]
pub struct Experts {
    /// Tokens × hidden.
    pub x: BufferId,
    /// Tokens × twice the chosen experts, from [`Route`](super::Route).
    pub route: BufferId,
    /// How many experts there are.
    pub experts: usize,
    /// `experts·width × hidden`, expert after expert: the branch that is activated.
    pub gate: WeightId,
    /// `experts·width × hidden`, expert after expert.
    pub up: WeightId,
    /// `experts·hidden × width`, expert after expert.
    pub down: WeightId,
    /// Applied to the gate.
    pub activation: Activation,
    /// Tokens × [`Self::between`] columns, for what comes before `down`; an executor's own business.
    pub gated: BufferId,
    /// Tokens × hidden, which is added to.
    pub out: BufferId,
}

impl Experts {
    /// Columns of `gated`: for each chosen expert `width` values, filled up so that each begins where
    /// kernels can read vectors.
    pub const fn between(chosen: usize, width: usize) -> usize {
        chosen * width.next_multiple_of(32)
    }

    pub(super) fn check(&self, shapes: &Shapes) -> Result<()> {
        let hidden = shapes.spec(self.x)?.columns;
        let chosen = shapes.spec(self.route)?.columns / 2;
        let rows = shapes.rows(self.gate)?;
        if self.experts == 0 || !rows.is_multiple_of(self.experts) {
            return Err(Error::internal(format!(
                "{rows} rows do not belong to {} experts",
                self.experts
            )));
        }
        let width = rows / self.experts;
        shapes.buffer(self.x, Rows::Tokens, hidden)?;
        shapes.buffer(self.route, Rows::Tokens, 2 * chosen)?;
        shapes.buffer(self.gated, Rows::Tokens, Self::between(chosen, width))?;
        shapes.buffer(self.out, Rows::Tokens, hidden)?;
        shapes.weight(self.gate, self.experts * width, hidden)?;
        shapes.weight(self.up, self.experts * width, hidden)?;
        shapes.weight(self.down, self.experts * hidden, width)
    }
}

/// `x` and `out`: rows of `hidden` values; `route`: as many rows of `chosen` numbers and weights.
/// `matrices`: gate, up and down.
pub fn reference(
    x: &[f32],
    route: &[f32],
    chosen: usize,
    matrices: [Matrix; 3],
    activation: Activation,
    out: &mut [f32],
) {
    let [gate, up, down] = matrices;
    let (hidden, width) = (gate.columns, down.columns);
    let mut row = vec![0.0; hidden.max(width)];
    let mut product = |matrix: &Matrix, at: usize, x: &[f32]| {
        let row = &mut row[..matrix.columns];
        matrix.row(at, row);
        dot(x, row)
    };
    let rows = x.chunks_exact(hidden).zip(route.chunks_exact(2 * chosen));
    for ((x, route), out) in rows.zip(out.chunks_exact_mut(hidden)) {
        let mut sums = vec![0.0; hidden];
        for (&expert, &weight) in route[..chosen].iter().zip(&route[chosen..]) {
            let expert = expert as usize;
            let gated: Vec<f32> = (expert * width..(expert + 1) * width)
                .map(|at| (activation.apply(product(&gate, at, x)) * product(&up, at, x)) as f32)
                .collect();
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum += f64::from(weight) * product(&down, expert * hidden + i, &gated);
            }
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = (f64::from(*out) + sum) as f32;
        }
    }
}
