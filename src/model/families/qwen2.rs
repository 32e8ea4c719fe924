//! Qwen 2: Llama with biases on queries, keys and values, and perhaps a sliding window on later layers.
//!
//! Source: Yang et al. 2024, and Hugging Face `Qwen2ForCausalLM`.

use super::llama;
use crate::{
    error::Result,
    model::{Family, Keys, ModelConfig, names},
    ops::Pairing,
};

pub const FAMILY: Family = Family {
    name: "qwen2",
    architectures: &["qwen2"],
    model_types: &["qwen2"],
    names: names::LLAMA,
    config,
    forward: llama::forward,
};

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, "qwen2", false, Some(Pairing::Halves))?;
    windows(keys, &mut config)?;
    Ok(config)
}

/// Windows of the Qwen family, which count only where `use_sliding_window` says so.
pub(super) fn windows(keys: &Keys, config: &mut ModelConfig) -> Result<()> {
    let first = keys.count("max_window_layers")?;
    config.windows(keys, |layer| layer >= first.unwrap_or(0))?;
    if keys.flag("use_sliding_window")? != Some(true) {
        config.layers.iter_mut().for_each(|l| l.window = None);
    }
    Ok(())
}
