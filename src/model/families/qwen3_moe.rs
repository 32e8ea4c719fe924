//! Qwen 3 with mixtures of experts in all or some of its layers.
//!
//! Source: Yang et al. 2025, and Hugging Face `Qwen3MoeForCausalLM`.

use super::{qwen2, qwen3};
use crate::{
    error::Result,
    model::{Assumed, Family, Keys, ModelConfig, names},
    ops::Pairing,
    weights::Format,
};

pub const FAMILY: Family = Family {
    name: "qwen3_moe",
    architectures: &["qwen3moe"],
    model_types: &["qwen3_moe"],
    names: names::LLAMA,
    needless: names::FREQUENCIES,
    defaults: &[
        ("attention.head_count_kv", Assumed::Number(4.0)),
        ("attention.sliding_window", Assumed::Number(4096.0)),
        ("expert_count", Assumed::Number(128.0)),
        ("expert_used_count", Assumed::Number(8.0)),
        ("expert_feed_forward_length", Assumed::Number(768.0)),
    ],
    config,
    forward: qwen3::forward,
};

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, "qwen3_moe", false, Some(Pairing::Halves))?;
    qwen2::windows(keys, &mut config, |_| true)?;
    // Most GGUF files do not say; every published model normalises.
    config.mixture(keys, keys.format() == Format::Gguf)?;
    // GGUF files show it by their tensors.
    if keys.format() == Format::Checkpoint {
        let dense = keys.integers("mlp_only_layers")?.unwrap_or_default();
        let every = keys.step("decoder_sparse_step", 1)?;
        for (i, layer) in config.layers.iter_mut().enumerate() {
            layer.sparse = Some(!dense.contains(&(i as i64)) && (i + 1).is_multiple_of(every));
        }
    }
    Ok(config)
}
