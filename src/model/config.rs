//! The sizes and constants of a model, whatever its family.

use super::Keys;
use crate::{
    error::{Error, Result},
    ops::Pairing,
};

/// Sizes and constants of a decoder-only transformer. Counts are of values unless said otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The family's name.
    pub architecture: &'static str,
    /// Transformer layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the feed-forward layer.
    pub intermediate: usize,
    /// Query heads.
    pub heads: usize,
    /// Key-value heads; `heads` is a multiple.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Rows of the logits; may exceed the tokenizer's vocabulary.
    pub vocabulary: usize,
    /// Positions the model was trained for.
    pub max_positions: usize,
    /// Added to the mean square in norms.
    pub norm_epsilon: f32,
    /// Rotary embedding.
    pub rope: Rope,
}

/// Rotary embedding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rope {
    /// Base of the frequencies.
    pub theta: f32,
    /// Values of a head that are rotated; even.
    pub dims: usize,
    /// Which values form a pair.
    pub pairing: Pairing,
}

impl ModelConfig {
    /// Fails, naming the key, if the sizes do not belong together or cannot be served.
    pub(super) fn check(&self, keys: &Keys) -> Result<()> {
        let key = |name: &str| keys.key(name);
        let positive = [
            ("block_count", self.layers),
            ("embedding_length", self.hidden),
            ("feed_forward_length", self.intermediate),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("attention.key_length", self.head_dim),
            ("vocab_size", self.vocabulary),
            ("context_length", self.max_positions),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(Error::weights(key(name), "0 is not allowed"));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let message = format!(
                "{} does not divide the {} query heads",
                self.kv_heads, self.heads
            );
            return Err(Error::weights(key("attention.head_count_kv"), message));
        }
        if self.rope.dims > self.head_dim
            || !self.rope.dims.is_multiple_of(2)
            || self.rope.dims == 0
        {
            let message = format!(
                "{} is not an even number up to {}",
                self.rope.dims, self.head_dim
            );
            return Err(Error::weights(key("rope.dimension_count"), message));
        }
        if self.norm_epsilon <= 0.0 {
            let message = format!("{} is not above 0", self.norm_epsilon);
            return Err(Error::weights(
                key("attention.layer_norm_rms_epsilon"),
                message,
            ));
        }
        if self.rope.theta <= 0.0 {
            return Err(Error::weights(
                key("rope.freq_base"),
                format!("{} is not above 0", self.rope.theta),
            ));
        }
        Ok(())
    }
}
