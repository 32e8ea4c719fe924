//! Qwen 3: Llama with the heads of queries and keys normalised.
//!
//! Source: Yang et al. 2025, and Hugging Face `Qwen3ForCausalLM`.

use super::qwen2;
use crate::{
    error::Result,
    model::{Assumed, Builder, Family, Keys, ModelConfig, blocks::name, names},
    ops::Pairing,
};

pub const FAMILY: Family = Family {
    name: "qwen3",
    architectures: &["qwen3"],
    model_types: &["qwen3"],
    names: names::LLAMA,
    needless: names::FREQUENCIES,
    defaults: &[
        ("attention.key_length", Assumed::Number(128.0)),
        ("attention.head_count_kv", Assumed::Number(32.0)),
        ("attention.sliding_window", Assumed::Number(4096.0)),
        ("max_window_layers", Assumed::Number(28.0)),
    ],
    config,
    forward,
};

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, "qwen3", false, Some(Pairing::Halves))?;
    qwen2::later_windows(keys, &mut config)?;
    Ok(config)
}

/// With experts in the layers that have a router.
pub(super) fn forward(b: &mut Builder, config: &ModelConfig) -> Result<()> {
    let x = b.embedding()?;
    for layer in 0..config.layers.len() {
        let normed = b.norm(x, &name(layer, "attn_norm"), "normed")?;
        let qkv = b.queries_keys_values(normed, layer)?;
        let qkv = b.norm_each_head(qkv, layer)?;
        let attended = b.attention(qkv, layer)?;
        b.linear_add(attended, &name(layer, "attn_output"), x)?;

        let normed = b.norm(x, &name(layer, "ffn_norm"), "normed")?;
        b.mixture(normed, layer, x)?;
    }
    b.head(x)
}
