//! Granite: Llama with multipliers on embeddings, attention, residuals and logits.
//!
//! Source: Granite Team, IBM 2024, and Hugging Face `GraniteForCausalLM`.

use super::llama;
use crate::{
    error::Result,
    model::{Family, Keys, ModelConfig, names},
    weights::Format,
};

pub const FAMILY: Family = Family {
    name: "granite",
    architectures: &["granite"],
    model_types: &["granite"],
    names: names::LLAMA,
    needless: names::FREQUENCIES,
    defaults: &[],
    config,
    forward: llama::forward,
};

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, "granite", false, Some(llama::pairing(keys)))?;
    let name = "rope.scaling.finetuned";
    if keys.format() == Format::Gguf && keys.flag(name)? == Some(false) {
        return Err(keys.unsupported(name, "false", "true"));
    }
    // Without it, Hugging Face multiplies by 1, and GGUF files mean the usual scale.
    if let Some(scale) = keys.number("attention.scale")? {
        config.attention_scale = scale;
    } else if keys.format() == Format::Checkpoint {
        config.attention_scale = 1.0;
    }
    config.embedding_scale = keys.number("embedding_scale")?.unwrap_or(1.0);
    config.residual_scale = keys.number("residual_scale")?.unwrap_or(1.0);
    // Logits are divided.
    let divisor = match keys.format() {
        Format::Gguf => keys.divisor("logit_scale")?,
        Format::Checkpoint => keys.divisor("logits_scaling")?,
    };
    config.logit_scale = 1.0 / divisor.unwrap_or(1.0);
    Ok(config)
}
