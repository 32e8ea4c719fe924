//! Row selection: `out[i] = x[outputs[i]]`, so that logits are computed only where they are wanted.

use super::{BufferId, Rows, Shapes};
use crate::error::Result;

/// Keeps the rows that the step lists as outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectRows {
    /// Tokens × columns.
    pub x: BufferId,
    /// Outputs × columns.
    pub out: BufferId,
}

impl SelectRows {
    pub(super) fn check(&self, shapes: &Shapes) -> Result<()> {
        let columns = shapes.spec(self.x)?.columns;
        shapes.buffer(self.x, Rows::Tokens, columns)?;
        shapes.buffer(self.out, Rows::Outputs, columns)
    }
}

/// `out`: `outputs.len() × columns`.
pub fn reference(x: &[f32], columns: usize, outputs: &[u32], out: &mut [f32]) {
    for (&row, out) in outputs.iter().zip(out.chunks_exact_mut(columns)) {
        out.copy_from_slice(&x[row as usize * columns..][..columns]);
    }
}
