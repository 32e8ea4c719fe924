//! Gemma 3, text only: Gemma 2 without caps, with the heads of queries and keys normalised, and with a
//! window and a rope of their own on five layers of six.
//!
//! Source: Gemma Team 2025, and Hugging Face `Gemma3ForCausalLM`.

use super::{gemma, gemma2};
use crate::{
    error::Result,
    model::{Assumed, Builder, Family, Keys, ModelConfig, Rope, Scaling, names},
};

pub const FAMILY: Family = Family {
    name: "gemma3",
    architectures: &["gemma3"],
    model_types: &["gemma3_text"],
    names: gemma2::NAMES,
    needless: names::FREQUENCIES,
    defaults: &[
        ("attention.key_length", Assumed::Number(256.0)),
        ("attention.head_count_kv", Assumed::Number(4.0)),
        ("attention.sliding_window", Assumed::Number(4096.0)),
        ("query_pre_attn_scalar", Assumed::Number(256.0)),
        ("rope.freq_base", Assumed::Number(1_000_000.0)),
        ("hidden_activation", Assumed::Text("gelu_pytorch_tanh")),
        ("tie_word_embeddings", Assumed::Flag(true)),
    ],
    config,
    forward,
};

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = gemma::later(keys, "gemma3")?;
    gemma2::caps(keys, &mut config)?;
    // As with Gemma 2, the largest model, of 62 layers, divides by another width.
    gemma2::attention_scale(keys, &mut config, 62)?;
    let pattern = keys.step("attention.sliding_window_pattern", 6)?;
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
