//! StableLM 2: layer norms, partial rotary embedding, perhaps biases and parallel parts.
//!
//! Source: Bellagente et al. 2024, and Hugging Face `StableLmForCausalLM`.

use super::llama;
use crate::{
    error::Result,
    model::{Builder, Family, Keys, ModelConfig, names},
    ops::Pairing,
};

pub const FAMILY: Family = Family {
    name: "stablelm",
    architectures: &["stablelm"],
    model_types: &["stablelm"],
    names: names::LLAMA,
    config,
    forward,
};

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, "stablelm", true, Some(Pairing::Halves))?;
    config.parallel = keys.flag("use_parallel_residual")?.unwrap_or(false);
    Ok(config)
}

fn forward(b: &mut Builder, config: &ModelConfig) -> Result<()> {
    match config.parallel {
        true => b.parallel_layers(),
        false => llama::forward(b, config),
    }
}
