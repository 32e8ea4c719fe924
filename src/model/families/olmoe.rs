//! OLMoE: mixtures of experts in every layer, queries and keys normalised over all heads together.
//!
//! Source: Muennighoff et al. 2024, and Hugging Face `OlmoeForCausalLM`.

use crate::{
    error::Result,
    model::{Assumed, Builder, Family, Keys, ModelConfig, blocks::name, names},
    ops::Pairing,
};

pub const FAMILY: Family = Family {
    name: "olmoe",
    architectures: &["olmoe"],
    model_types: &["olmoe"],
    names: names::LLAMA,
    needless: names::FREQUENCIES,
    defaults: &[
        ("expert_count", Assumed::Number(64.0)),
        ("expert_used_count", Assumed::Number(8.0)),
    ],
    config,
    forward,
};

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, "olmoe", false, Some(Pairing::Halves))?;
    config.mixture(keys, false)?;
    Ok(config)
}

fn forward(b: &mut Builder, config: &ModelConfig) -> Result<()> {
    let x = b.embedding()?;
    for layer in 0..config.layers.len() {
        let normed = b.norm(x, &name(layer, "attn_norm"), "normed")?;
        let qkv = b.queries_keys_values(normed, layer)?;
        let qkv = b.norm_all_heads(qkv, layer)?;
        let attended = b.attention(qkv, layer)?;
        b.linear_add(attended, &name(layer, "attn_output"), x)?;

        let normed = b.norm(x, &name(layer, "ffn_norm"), "normed")?;
        b.mixture(normed, layer, x)?;
    }
    b.head(x)
}
