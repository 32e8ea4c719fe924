//! Rotary embedding of queries and keys, and storing keys and values in the cache.
//!
//! For a pair `(a, b)` of a head's first `dims` values, with the position's angle:
//! `(a, b) → (a·cos − b·sin, b·cos + a·sin)`. The rest of the head passes unchanged. Source: Su et
//! al. 2021. Cosines and sines come from a table made once on the host, because the precision of
//! trigonometric functions in shaders is not specified for angles as large as a position.

use super::{BufferId, Rows, Shapes, WeightId};
use crate::error::Result;

/// Which values of a head form a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// `(x[i], x[i + dims / 2])`: Hugging Face checkpoints, and GGUF of the NeoX kind.
    Halves,
    /// `(x[2i], x[2i + 1])`: GGUF files of the Llama family, whose rows are permuted to suit.
    Neighbours,
}

/// How the heads of a row are rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// Rows of `dims` values: the cosines of a position's angles, then their sines. A row of the step
    /// takes the row of its position, counted from its sequence's first row in the table.
    pub table: WeightId,
    /// Which values form a pair.
    pub pairing: Pairing,
    /// Values of a head that are rotated; even.
    pub dims: usize,
}

/// Rotates queries in place, and stores rotated keys and plain values in the cache.
#[derive(Debug, Clone, PartialEq)]
pub struct RotaryStore {
    /// Tokens × heads·head_dim; rotated in place.
    pub q: BufferId,
    /// Tokens × kv_heads·head_dim; only the cache receives the rotated keys.
    pub k: BufferId,
    /// Tokens × kv_heads·head_dim.
    pub v: BufferId,
    /// How heads are rotated; not at all if `None`.
    pub rotation: Option<Rotation>,
    /// The layer whose cache receives keys and values.
    pub layer: usize,
    /// Query heads.
    pub heads: usize,
}

impl RotaryStore {
    pub(super) fn check(&self, shapes: &Shapes) -> Result<()> {
        let cache = shapes.cache;
        shapes.buffer(self.q, Rows::Tokens, self.heads * cache.head_dim)?;
        shapes.buffer(self.k, Rows::Tokens, cache.width())?;
        shapes.buffer(self.v, Rows::Tokens, cache.width())?;
        let Some(Rotation { table, dims, .. }) = self.rotation else {
            return Ok(());
        };
        shapes.weight(table, shapes.rows(table)?, dims)
    }
}

/// Rotates `heads`, consecutive heads of `head_dim` values at one position, in place.
/// `angles`: `rotary_dims / 2` cosines, then as many sines.
pub fn reference(heads: &mut [f32], head_dim: usize, angles: &[f32], pairing: Pairing) {
    let pairs = angles.len() / 2;
    for head in heads.chunks_exact_mut(head_dim) {
        for i in 0..pairs {
            let (at_a, at_b) = match pairing {
                Pairing::Halves => (i, i + pairs),
                Pairing::Neighbours => (2 * i, 2 * i + 1),
            };
            let (a, b) = (f64::from(head[at_a]), f64::from(head[at_b]));
            let (cos, sin) = (f64::from(angles[i]), f64::from(angles[pairs + i]));
            head[at_a] = (a * cos - b * sin) as f32;
            head[at_b] = (b * cos + a * sin) as f32;
        }
    }
}
