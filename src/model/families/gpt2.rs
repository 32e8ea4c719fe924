//! GPT-2: layer norms, learned positions, biases everywhere, no gate.
//!
//! Source: Radford et al. 2019, and Hugging Face `GPT2LMHeadModel`.

use super::phi3::queries_keys_values;
use crate::{
    error::Result,
    model::{
        Assumed, Builder, Family, Keys, ModelConfig,
        blocks::name,
        names::{Name, name as stored},
    },
    ops::{Activation, Lookup},
    weights::Format,
};

pub const FAMILY: Family = Family {
    name: "gpt2",
    architectures: &["gpt2"],
    model_types: &["gpt2"],
    names: NAMES,
    needless: &[".attn.bias", ".attn.masked_bias"],
    defaults: &[
        ("activation", Assumed::Text("gelu_new")),
        ("tie_word_embeddings", Assumed::Flag(true)),
    ],
    config,
    forward,
};

const QKV: &str = "transformer.h.*.attn.c_attn";

#[rustfmt::skip]
const NAMES: &[Name] = &[
    stored("token_embd", "transformer.wte"),
    stored("position_embd", "transformer.wpe"),
    stored("output_norm", "transformer.ln_f"),
    stored("output", "lm_head"),
    stored("blk.*.attn_norm", "transformer.h.*.ln_1"),
    stored("blk.*.attn_q", QKV).outputs(|c| queries_keys_values(c, 0)).transposed().fused("blk.*.attn_qkv", |c| queries_keys_values(c, 0)),
    stored("blk.*.attn_k", QKV).outputs(|c| queries_keys_values(c, 1)).transposed().fused("blk.*.attn_qkv", |c| queries_keys_values(c, 1)),
    stored("blk.*.attn_v", QKV).outputs(|c| queries_keys_values(c, 2)).transposed().fused("blk.*.attn_qkv", |c| queries_keys_values(c, 2)),
    stored("blk.*.attn_output", "transformer.h.*.attn.c_proj").transposed(),
    stored("blk.*.ffn_norm", "transformer.h.*.ln_2"),
    stored("blk.*.ffn_up", "transformer.h.*.mlp.c_fc").transposed(),
    stored("blk.*.ffn_down", "transformer.h.*.mlp.c_proj").transposed(),
];

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, "gpt2", true, None)?;
    // GGUF files do not say; there is only one kind of them.
    if keys.format() == Format::Gguf {
        config.activation = Activation::GeluTanh;
    }
    Ok(config)
}

fn forward(b: &mut Builder, config: &ModelConfig) -> Result<()> {
    let x = b.embedding()?;
    b.embed(
        "position_embd",
        config.max_positions,
        Lookup::Position,
        1.0,
        x,
    )?;
    for layer in 0..config.layers.len() {
        let normed = b.norm(x, &name(layer, "attn_norm"), "normed")?;
        let qkv = b.queries_keys_values(normed, layer)?;
        let attended = b.attention(qkv, layer)?;
        b.linear_add(attended, &name(layer, "attn_output"), x)?;

        let normed = b.norm(x, &name(layer, "ffn_norm"), "normed")?;
        b.plain_feed_forward(normed, layer, x)?;
    }
    b.head(x)
}
