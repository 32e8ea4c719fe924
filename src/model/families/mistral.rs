//! Mistral: Llama with a sliding window. GGUF files of it say they are Llama.
//!
//! Source: Jiang et al. 2023, and Hugging Face `MistralForCausalLM`.

use super::llama;
use crate::{
    error::Result,
    model::{Family, Keys, ModelConfig, names},
};

pub const FAMILY: Family = Family {
    name: "mistral",
    architectures: &[],
    model_types: &["mistral"],
    names: names::LLAMA,
    config,
    forward: llama::forward,
};

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, "mistral", false, Some(llama::pairing(keys)))?;
    config.windows(keys, |_| true)?;
    Ok(config)
}
