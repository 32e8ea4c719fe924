//! StableLM 2: layer norms, partial rotary embedding, perhaps biases, parallel parts and a norm for each
//! head of queries and keys.
//!
//! Source: Bellagente et al. 2024, and Hugging Face `StableLmForCausalLM`.

use crate::{
    error::Result,
    model::{
        Assumed, Builder, Family, Keys, ModelConfig,
        blocks::name,
        names::{self, Name, name as stored},
    },
    ops::Pairing,
    weights::Format,
};

pub const FAMILY: Family = Family {
    name: "stablelm",
    architectures: &["stablelm"],
    model_types: &["stablelm"],
    names: NAMES,
    needless: names::FREQUENCIES,
    defaults: &[
        ("attention.head_count_kv", Assumed::Number(32.0)),
        ("rope.partial_factor", Assumed::Number(0.25)),
    ],
    config,
    forward,
};

#[rustfmt::skip]
const NAMES: &[Name] = &[
    stored("token_embd", "model.embed_tokens"),
    stored("output_norm", "model.norm"),
    stored("output", "lm_head"),
    stored("blk.*.attn_norm", "model.layers.*.input_layernorm"),
    stored("blk.*.attn_q", "model.layers.*.self_attn.q_proj"),
    stored("blk.*.attn_k", "model.layers.*.self_attn.k_proj"),
    stored("blk.*.attn_v", "model.layers.*.self_attn.v_proj"),
    stored("blk.*.attn_q_norm", "model.layers.*.self_attn.q_layernorm.norms.*"),
    stored("blk.*.attn_k_norm", "model.layers.*.self_attn.k_layernorm.norms.*"),
    stored("blk.*.attn_output", "model.layers.*.self_attn.o_proj"),
    stored("blk.*.ffn_norm", "model.layers.*.post_attention_layernorm"),
    stored("blk.*.ffn_gate", "model.layers.*.mlp.gate_proj"),
    stored("blk.*.ffn_up", "model.layers.*.mlp.up_proj"),
    stored("blk.*.ffn_down", "model.layers.*.mlp.down_proj"),
];

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, "stablelm", true, Some(Pairing::Halves))?;
    let said = keys.flag("use_parallel_residual")?;
    // Converters write true where they do not know; the second norm is there in sequential layers only.
    config.parallel = match keys.format() {
        Format::Gguf => !keys.has_tensor("blk.0.ffn_norm.weight"),
        Format::Checkpoint => said.unwrap_or(false),
    };
    Ok(config)
}

fn forward(b: &mut Builder, config: &ModelConfig) -> Result<()> {
    if config.parallel {
        return b.parallel_layers();
    }
    let x = b.embedding()?;
    for layer in 0..config.layers.len() {
        let normed = b.norm(x, &name(layer, "attn_norm"), "normed")?;
        let qkv = b.queries_keys_values(normed, layer)?;
        let qkv = b.norm_heads_if_told(qkv, layer)?;
        let attended = b.attention(qkv, layer)?;
        b.linear_add(attended, &name(layer, "attn_output"), x)?;

        let normed = b.norm(x, &name(layer, "ffn_norm"), "normed")?;
        b.feed_forward(normed, layer, x)?;
    }
    b.head(x)
}
