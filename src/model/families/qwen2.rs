//! Qwen 2: Llama with biases on queries, keys and values, and perhaps a sliding window on later layers.
//!
//! Source: Yang et al. 2024, and Hugging Face `Qwen2ForCausalLM`.

use super::llama;
use crate::{
    error::Result,
    model::{Assumed, Family, Keys, ModelConfig, names},
    ops::Pairing,
    weights::Format,
};

pub const FAMILY: Family = Family {
    name: "qwen2",
    architectures: &["qwen2"],
    model_types: &["qwen2"],
    names: names::LLAMA,
    needless: names::FREQUENCIES,
    defaults: &[
        ("attention.head_count_kv", Assumed::Number(32.0)),
        ("attention.sliding_window", Assumed::Number(4096.0)),
        ("max_window_layers", Assumed::Number(28.0)),
    ],
    config,
    forward: llama::forward,
};

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, "qwen2", false, Some(Pairing::Halves))?;
    later_windows(keys, &mut config)?;
    Ok(config)
}

/// Windows from a certain layer on.
pub(super) fn later_windows(keys: &Keys, config: &mut ModelConfig) -> Result<()> {
    let first = keys.count("max_window_layers")?.unwrap_or(0);
    windows(keys, config, |layer| layer >= first)
}

/// Windows of those layers that `config.json` lists, or else that `slides` says, which count only where
/// `use_sliding_window` says so. GGUF files cannot say it.
pub(super) fn windows(
    keys: &Keys,
    config: &mut ModelConfig,
    slides: impl Fn(usize) -> bool,
) -> Result<()> {
    if keys.format() == Format::Gguf {
        return Ok(());
    }
    config.windows(keys, slides)?;
    if keys.flag("use_sliding_window")? != Some(true) {
        config.layers.iter_mut().for_each(|l| l.window = None);
    }
    Ok(())
}
