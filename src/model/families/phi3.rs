//! Phi-3: Llama with fused projections and, for long contexts, a factor for each frequency.
//!
//! Source: Abdin et al. 2024, and Hugging Face `Phi3ForCausalLM`.

use super::llama;
use crate::{
    error::Result,
    model::{
        Assumed, Family, Keys, ModelConfig, Outputs,
        names::{self, Name, name as stored},
    },
    ops::Pairing,
};

pub const FAMILY: Family = Family {
    name: "phi3",
    architectures: &["phi3"],
    model_types: &["phi3"],
    names: NAMES,
    needless: names::FREQUENCIES,
    defaults: &[(
        "rope.scaling.original_context_length",
        Assumed::Number(4096.0),
    )],
    config,
    forward: llama::forward,
};

const QKV: &str = "model.layers.*.self_attn.qkv_proj";
const GATE_UP: &str = "model.layers.*.mlp.gate_up_proj";

#[rustfmt::skip]
const NAMES: &[Name] = &[
    stored("token_embd", "model.embed_tokens"),
    stored("output_norm", "model.norm"),
    stored("output", "lm_head"),
    stored("blk.*.attn_norm", "model.layers.*.input_layernorm"),
    stored("blk.*.attn_q", QKV).outputs(|c| queries_keys_values(c, 0)).fused("blk.*.attn_qkv", |c| queries_keys_values(c, 0)),
    stored("blk.*.attn_k", QKV).outputs(|c| queries_keys_values(c, 1)).fused("blk.*.attn_qkv", |c| queries_keys_values(c, 1)),
    stored("blk.*.attn_v", QKV).outputs(|c| queries_keys_values(c, 2)).fused("blk.*.attn_qkv", |c| queries_keys_values(c, 2)),
    stored("blk.*.attn_output", "model.layers.*.self_attn.o_proj"),
    stored("blk.*.ffn_norm", "model.layers.*.post_attention_layernorm"),
    stored("blk.*.ffn_gate", GATE_UP).outputs(gate).fused("blk.*.ffn_up", gate),
    stored("blk.*.ffn_up", GATE_UP).outputs(up).fused("blk.*.ffn_up", up),
    stored("blk.*.ffn_down", "model.layers.*.mlp.down_proj"),
];

/// The outputs of the queries (0), keys (1) or values (2) in a layer that has them one after another.
pub(super) fn queries_keys_values(config: &ModelConfig, which: usize) -> Vec<Outputs> {
    let (wide, narrow) = (
        config.heads * config.head_dim,
        config.kv_heads * config.head_dim,
    );
    let (from, count) = [(0, wide), (wide, narrow), (wide + narrow, narrow)][which];
    vec![Outputs { from, count }]
}

fn gate(config: &ModelConfig) -> Vec<Outputs> {
    let count = config.intermediate;
    vec![Outputs { from: 0, count }]
}

fn up(config: &ModelConfig) -> Vec<Outputs> {
    let count = config.intermediate;
    vec![Outputs { from: count, count }]
}

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, "phi3", false, Some(Pairing::Halves))?;
    config.windows(keys, |_| true)?;
    Ok(config)
}
