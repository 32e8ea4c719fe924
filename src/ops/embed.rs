//! Embedding: `out[row] [+]= scale · weight[index[row]]`, by the token of a row or by its position.

use super::{BufferId, Rows, Shapes, WeightId};
use crate::{error::Result, tensor::Matrix};

/// Looks up a row of a matrix for each token of the step.
#[derive(Debug, Clone, PartialEq)]
pub struct Embed {
    /// Vocabulary or positions × columns.
    pub weight: WeightId,
    /// What chooses the row.
    pub lookup: Lookup,
    /// What the row is multiplied by.
    pub scale: f32,
    /// Whether the result is added to what `out` holds.
    pub add: bool,
    /// Tokens × columns.
    pub out: BufferId,
}

/// What chooses a row of an embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// The token.
    Token,
    /// Its position, for learned positions.
    Position,
}

impl Embed {
    pub(super) fn check(&self, shapes: &Shapes) -> Result<()> {
        let columns = shapes.spec(self.out)?.columns;
        shapes.buffer(self.out, Rows::Tokens, columns)?;
        shapes.weight(self.weight, shapes.rows(self.weight)?, columns)
    }
}

/// `out`: `indices.len() × weight.columns`, and holds what is added to, or zeros, on entry. Indices are
/// below `weight.rows`.
pub fn reference(indices: &[u32], weight: Matrix, scale: f32, out: &mut [f32]) {
    let mut values = vec![0.0; weight.columns];
    for (&index, out) in indices.iter().zip(out.chunks_exact_mut(weight.columns)) {
        weight.row(index as usize, &mut values);
        for (out, &value) in out.iter_mut().zip(&values) {
            *out = (f64::from(*out) + f64::from(scale) * f64::from(value)) as f32;
        }
    }
}
