//! Gemma: embeddings scaled by √width, gated GELU; checkpoints hold norms less 1.
//!
//! Source: Gemma Team 2024, and Hugging Face `GemmaForCausalLM`.

use super::llama;
use crate::{
    error::Result,
    model::{
        Assumed, Family, Keys, ModelConfig, activation,
        names::{self, Name, name as stored},
    },
    ops::{Activation, Pairing},
    weights::Format,
};

pub const FAMILY: Family = Family {
    name: "gemma",
    architectures: &["gemma"],
    model_types: &["gemma"],
    names: NAMES,
    needless: names::FREQUENCIES,
    defaults: &[
        ("attention.key_length", Assumed::Number(256.0)),
        ("attention.head_count_kv", Assumed::Number(16.0)),
        ("activation", Assumed::Text("gelu_pytorch_tanh")),
        ("tie_word_embeddings", Assumed::Flag(true)),
    ],
    config,
    forward: llama::forward,
};

#[rustfmt::skip]
const NAMES: &[Name] = &[
    stored("token_embd", "model.embed_tokens"),
    stored("output_norm", "model.norm").plus_one(),
    stored("output", "lm_head"),
    stored("blk.*.attn_norm", "model.layers.*.input_layernorm").plus_one(),
    stored("blk.*.attn_q", "model.layers.*.self_attn.q_proj"),
    stored("blk.*.attn_k", "model.layers.*.self_attn.k_proj"),
    stored("blk.*.attn_v", "model.layers.*.self_attn.v_proj"),
    stored("blk.*.attn_output", "model.layers.*.self_attn.o_proj"),
    stored("blk.*.ffn_norm", "model.layers.*.post_attention_layernorm").plus_one(),
    stored("blk.*.ffn_gate", "model.layers.*.mlp.gate_proj"),
    stored("blk.*.ffn_up", "model.layers.*.mlp.up_proj"),
    stored("blk.*.ffn_down", "model.layers.*.mlp.down_proj"),
];

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = shared(keys, "gemma")?;
    // The first releases say "gelu" and mean its approximation.
    if keys.format() == Format::Gguf || config.activation == Activation::Gelu {
        config.activation = Activation::GeluTanh;
    }
    let name = "hidden_activation";
    match keys.text(name)? {
        None | Some("gelu_pytorch_tanh") => Ok(config),
        Some(other) => Err(keys.unsupported(name, &format!("{other:?}"), "gelu_pytorch_tanh")),
    }
}

/// What all of Gemma's generations share.
pub(super) fn shared(keys: &Keys, architecture: &'static str) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, architecture, false, Some(Pairing::Halves))?;
    config.embedding_scale = (config.hidden as f32).sqrt();
    Ok(config)
}

/// What the later generations share: a name of their own for the activation.
pub(super) fn later(keys: &Keys, architecture: &'static str) -> Result<ModelConfig> {
    let mut config = shared(keys, architecture)?;
    config.activation = activation(keys, "hidden_activation")?.unwrap_or(Activation::GeluTanh);
    Ok(config)
}
