//! Cohere's Command R: one layer norm without bias before parallel parts, scaled logits.
//!
//! Source: Hugging Face `CohereForCausalLM`.

use crate::{
    error::Result,
    model::{Family, Keys, ModelConfig, names},
    ops::Pairing,
};

pub const FAMILY: Family = Family {
    name: "cohere",
    architectures: &["command-r"],
    model_types: &["cohere"],
    names: names::LLAMA,
    config,
    forward: |b, _| b.parallel_layers(),
};

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, "cohere", true, Some(Pairing::Neighbours))?;
    // The default is Hugging Face's.
    config.logit_scale = keys.number("logit_scale")?.unwrap_or(0.0625);
    Ok(config)
}
