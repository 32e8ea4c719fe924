//! Embedding: `out[row] = weight[token[row]]`.

use super::{BufferId, Rows, Shapes, WeightId};
use crate::{error::Result, tensor::Matrix};

/// Looks up a row of the embedding matrix for each token of the step.
#[derive(Debug, Clone, PartialEq)]
pub struct Embed {
    /// `vocabulary × columns`.
    pub weight: WeightId,
    /// Tokens × columns.
    pub out: BufferId,
}

impl Embed {
    pub(super) fn check(&self, shapes: &Shapes) -> Result<()> {
        let columns = shapes.spec(self.out)?.columns;
        shapes.buffer(self.out, Rows::Tokens, columns)?;
        shapes.weight(self.weight, shapes.weights[self.weight.0].rows, columns)
    }
}

/// `out`: `tokens.len() × weight.columns`. Tokens are below `weight.rows`.
pub fn reference(tokens: &[u32], weight: Matrix, out: &mut [f32]) {
    for (&token, out) in tokens.iter().zip(out.chunks_exact_mut(weight.columns)) {
        weight.row(token as usize, out);
    }
}
