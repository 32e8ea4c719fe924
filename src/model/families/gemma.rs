//! Gemma: embeddings scaled by √width, gated GELU; checkpoints hold norms less 1.
//!
//! Source: Gemma Team 2024, and Hugging Face `GemmaForCausalLM`.

use super::llama;
use crate::{
    error::Result,
    model::{
        Family, Keys, ModelConfig,
        names::{Name, name as stored},
    },
    ops::{Activation, Pairing},
};

pub const FAMILY: Family = Family {
    name: "gemma",
    architectures: &["gemma"],
    model_types: &["gemma"],
    names: NAMES,
    config: |keys| config(keys, "gemma"),
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

/// What all of Gemma's generations share.
pub(super) fn config(keys: &Keys, architecture: &'static str) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, architecture, false, Some(Pairing::Halves))?;
    // Of the two keys that checkpoints have, one names an activation that no model was trained with.
    let name = "hidden_activation";
    match keys.text(name)? {
        None | Some("gelu_pytorch_tanh") => config.activation = Activation::GeluTanh,
        Some(other) => {
            return Err(keys.unsupported(name, &format!("{other:?}"), "gelu_pytorch_tanh"));
        }
    }
    config.embedding_scale = (config.hidden as f32).sqrt();
    Ok(config)
}
