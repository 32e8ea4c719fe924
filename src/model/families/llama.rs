//! The Llama family: RMSNorm, rotary embedding, grouped-query attention, gated SiLU.
//!
//! Source: Touvron et al. 2023, and Hugging Face `LlamaForCausalLM`.

use crate::{
    error::Result,
    model::{Builder, Family, Keys, ModelConfig, blocks::name, names},
    ops::Pairing,
    weights::Format,
};

pub const FAMILY: Family = Family {
    name: "llama",
    architectures: &["llama"],
    model_types: &["llama"],
    names: names::LLAMA,
    needless: names::FREQUENCIES,
    defaults: &[],
    config,
    forward,
};

/// How heads are rotated. GGUF files of this family hold query and key rows in the order of neighbouring
/// pairs.
pub(super) fn pairing(keys: &Keys) -> Pairing {
    match keys.format() {
        Format::Gguf => Pairing::Neighbours,
        Format::Checkpoint => Pairing::Halves,
    }
}

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, "llama", false, Some(pairing(keys)))?;
    // GGUF files of Mistral say they are Llama.
    if keys.format() == Format::Gguf {
        config.windows(keys, |_| true)?;
    }
    Ok(config)
}

pub(super) fn forward(b: &mut Builder, config: &ModelConfig) -> Result<()> {
    let x = b.embedding()?;
    for layer in 0..config.layers.len() {
        let normed = b.norm(x, &name(layer, "attn_norm"), "normed")?;
        let qkv = b.queries_keys_values(normed, layer)?;
        let attended = b.attention(qkv, layer)?;
        b.linear_add(attended, &name(layer, "attn_output"), x)?;

        let normed = b.norm(x, &name(layer, "ffn_norm"), "normed")?;
        b.feed_forward(normed, layer, x)?;
    }
    b.head(x)
}
