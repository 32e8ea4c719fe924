//! Gemma 3, text only: Gemma 2 without caps, with the heads of queries and keys normalised, and with a
//! window and a rope of their own on five layers of six.
//!
//! Source: Gemma Team 2025, and Hugging Face `Gemma3ForCausalLM`.

use super::{gemma, gemma2};
use crate::{
    error::Result,
    model::{Builder, Family, Keys, ModelConfig, Rope, Scaling},
};

pub const FAMILY: Family = Family {
    name: "gemma3",
    architectures: &["gemma3"],
    model_types: &["gemma3_text"],
    names: gemma2::NAMES,
    config,
    forward,
};

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = gemma::config(keys, "gemma3")?;
    config.attention_cap = keys.number("attn_logit_softcapping")?;
    config.logit_cap = keys.number("final_logit_softcapping")?;
    // As with Gemma 2, the largest model, of 62 layers, divides by another width.
    gemma2::attention_scale(keys, &mut config, 62)?;
    let pattern = keys.count("attention.sliding_window_pattern")?.unwrap_or(6);
    config.windows(keys, |layer| !(layer + 1).is_multiple_of(pattern))?;
    let name = "rope.scaling_swa.type";
    if let Some(kind) = keys.text(name)?.filter(|&kind| kind != "default") {
        return Err(keys.unsupported(name, &format!("{kind:?}"), "default"));
    }
    let local = Rope {
        theta: keys.number("rope.freq_base_swa")?.unwrap_or(10_000.0),
        scaling: Scaling::None,
        ..config.ropes[0].clone()
    };
    config.ropes.push(local);
    for layer in &mut config.layers {
        layer.rope = Some(usize::from(layer.window.is_some()));
    }
    Ok(config)
}

fn forward(b: &mut Builder, config: &ModelConfig) -> Result<()> {
    gemma2::layers(b, config, |b, qkv, layer| b.norm_each_head(qkv, layer))
}
