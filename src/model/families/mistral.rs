//! Mistral: Llama with a sliding window. GGUF files of it say they are Llama.
//!
//! Source: Jiang et al. 2023, and Hugging Face `MistralForCausalLM`.

use super::llama;
use crate::{
    error::Result,
    model::{Assumed, Family, Keys, ModelConfig, names},
};

pub const FAMILY: Family = Family {
    name: "mistral",
    architectures: &[],
    model_types: &["mistral"],
    names: names::LLAMA,
    needless: names::FREQUENCIES,
    defaults: &[
        ("attention.head_count_kv", Assumed::Number(8.0)),
        ("attention.sliding_window", Assumed::Number(4096.0)),
    ],
    config,
    forward: llama::forward,
};

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, "mistral", false, Some(llama::pairing(keys)))?;
    config.windows(keys, |_| true)?;
    Ok(config)
}
