//! Qwen 3 with mixtures of experts in all or some of its layers.
//!
//! Source: Yang et al. 2025, and Hugging Face `Qwen3MoeForCausalLM`.

use super::{qwen2, qwen3};
use crate::{
    error::Result,
    model::{Family, Keys, ModelConfig, names},
    ops::Pairing,
    weights::Format,
};

pub const FAMILY: Family = Family {
    name: "qwen3_moe",
    architectures: &["qwen3moe"],
    model_types: &["qwen3_moe"],
    names: names::LLAMA,
    config,
    forward: qwen3::forward,
};

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, "qwen3_moe", false, Some(Pairing::Halves))?;
    qwen2::windows(keys, &mut config)?;
    // GGUF files do not say; every published model normalises.
    let normalise = match keys.format() {
        Format::Gguf => true,
        Format::Checkpoint => keys.flag("norm_topk_prob")?.unwrap_or(false),
    };
    config.mixture(keys, normalise)?;
    // GGUF files show it by their tensors.
    if keys.format() == Format::Checkpoint {
        let dense = keys.integers("mlp_only_layers")?.unwrap_or_default();
        let every = keys.count("decoder_sparse_step")?.unwrap_or(1);
        for (i, layer) in config.layers.iter_mut().enumerate() {
            layer.sparse = Some(!dense.contains(&(i as i64)) && (i + 1).is_multiple_of(every));
        }
    }
    Ok(config)
}
