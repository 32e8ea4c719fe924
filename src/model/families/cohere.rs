//! Cohere's Command R: one layer norm without bias before parallel parts, perhaps a norm for each head of
//! queries and keys, scaled logits.
//!
//! Source: Hugging Face `CohereForCausalLM`.

use crate::{
    error::Result,
    model::{Assumed, Family, Keys, ModelConfig, names},
    ops::Pairing,
};

pub const FAMILY: Family = Family {
    name: "cohere",
    architectures: &["command-r"],
    model_types: &["cohere"],
    names: names::LLAMA,
    needless: names::FREQUENCIES,
    defaults: &[
        ("rope.freq_base", Assumed::Number(500_000.0)),
        ("logit_scale", Assumed::Number(0.0625)),
        ("tie_word_embeddings", Assumed::Flag(true)),
    ],
    config,
    forward: |b, _| b.parallel_layers(),
};

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, "cohere", true, Some(Pairing::Neighbours))?;
    config.logit_scale = keys.number("logit_scale")?.unwrap_or(1.0);
    Ok(config)
}
