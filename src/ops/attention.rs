//! Causal attention of one query position over the cached positions of its sequence.
//!
//! `out = Σⱼ softmax(scale · q·kⱼ) vⱼ` over `j ≤ position`, head by head; with a window of `w`, over
//! `position − w < j ≤ position`; with a cap of `c`, scores `s` become `c · tanh(s / c)`. With grouped
//! queries, query head `h` reads key-value head `h / (heads / kv_heads)`. Source: Vaswani et al. 2017;
//! Ainslie et al. 2023 for the grouping; Hugging Face `Gemma2Attention` for the cap.

use super::{Activation, BufferId, Rows, Shapes, matmul::dot};
use crate::error::{Error, Result};

/// Attention of every token of the step to the positions of its sequence up to its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    /// Tokens × heads·head_dim, already rotated.
    pub q: BufferId,
    /// The layer whose cache is read.
    pub layer: usize,
    /// Query heads; a multiple of the cache's `kv_heads`.
    pub heads: usize,
    /// What scores are multiplied by, commonly 1/√head_dim.
    pub scale: f32,
    /// Positions that a row sees, its own among them; all if `None`.
    pub window: Option<usize>,
    /// What scores stay below in magnitude; anything if `None`.
    pub cap: Option<f32>,
    /// Tokens × heads·head_dim.
    pub out: BufferId,
}

impl Attention {
    pub(super) fn check(&self, shapes: &Shapes) -> Result<()> {
        let cache = shapes.cache;
        if self.layer >= cache.layers
            || !self.heads.is_multiple_of(cache.kv_heads)
            || self.window == Some(0)
        {
            return Err(Error::internal(format!(
                "attention of {} heads in layer {} over {cache:?}",
                self.heads, self.layer
            )));
        }
        shapes.buffer(self.q, Rows::Tokens, self.heads * cache.head_dim)?;
        shapes.buffer(self.out, Rows::Tokens, self.heads * cache.head_dim)
    }
}

/// One token: `q` and `out` are its heads; `keys` and `values` hold a row of `kv_heads × head_dim`
/// for each position that the token sees.
pub fn reference(
    q: &[f32],
    keys: &[&[f32]],
    values: &[&[f32]],
    head_dim: usize,
    scale: f32,
    cap: Option<f32>,
    out: &mut [f32],
) {
    let heads = q.len() / head_dim;
    let group = heads / (keys[0].len() / head_dim);
    for head in 0..heads {
        let q = &q[head * head_dim..][..head_dim];
        let kv = head / group * head_dim..(head / group + 1) * head_dim;
        let scores: Vec<f64> = keys
            .iter()
            .map(|k| dot(q, &k[kv.clone()]) * f64::from(scale))
            .map(|score| cap.map_or(score, |cap| Activation::SoftCap(cap).apply(score)))
            .collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
        let total: f64 = weights.iter().sum();
        for (i, out) in out[head * head_dim..][..head_dim].iter_mut().enumerate() {
            let sum: f64 = weights
                .iter()
                .zip(values)
                .map(|(w, v)| w * f64::from(v[kv.start + i]))
                .sum();
            *out = (sum / total) as f32;
        }
    }
}
