//! Gemma 2: norms before and after each part, capped scores and logits, a window on every other layer.
//!
//! Source: Gemma Team 2024, and Hugging Face `Gemma2ForCausalLM`.

use super::gemma;
use crate::{
    error::Result,
    model::{
        Assumed, Builder, Family, Keys, ModelConfig,
        blocks::name,
        names::{self, Name, name as stored},
    },
    ops::BufferId,
    weights::Format,
};

pub const FAMILY: Family = Family {
    name: "gemma2",
    architectures: &["gemma2"],
    model_types: &["gemma2"],
    names: NAMES,
    needless: names::FREQUENCIES,
    defaults: &[
        ("attention.key_length", Assumed::Number(256.0)),
        ("attention.head_count_kv", Assumed::Number(4.0)),
        ("attention.sliding_window", Assumed::Number(4096.0)),
        ("query_pre_attn_scalar", Assumed::Number(256.0)),
        ("attn_logit_softcapping", Assumed::Number(50.0)),
        ("final_logit_softcapping", Assumed::Number(30.0)),
        ("hidden_activation", Assumed::Text("gelu_pytorch_tanh")),
        ("tie_word_embeddings", Assumed::Flag(true)),
    ],
    config,
    forward,
};

#[rustfmt::skip]
pub(super) const NAMES: &[Name] = &[
    stored("token_embd", "model.embed_tokens"),
    stored("output_norm", "model.norm").plus_one(),
    stored("output", "lm_head"),
    stored("blk.*.attn_norm", "model.layers.*.input_layernorm").plus_one(),
    stored("blk.*.attn_q", "model.layers.*.self_attn.q_proj"),
    stored("blk.*.attn_k", "model.layers.*.self_attn.k_proj"),
    stored("blk.*.attn_v", "model.layers.*.self_attn.v_proj"),
    stored("blk.*.attn_q_norm", "model.layers.*.self_attn.q_norm").plus_one(),
    stored("blk.*.attn_k_norm", "model.layers.*.self_attn.k_norm").plus_one(),
    stored("blk.*.attn_output", "model.layers.*.self_attn.o_proj"),
    stored("blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm").plus_one(),
    stored("blk.*.ffn_norm", "model.layers.*.pre_feedforward_layernorm").plus_one(),
    stored("blk.*.ffn_gate", "model.layers.*.mlp.gate_proj"),
    stored("blk.*.ffn_up", "model.layers.*.mlp.up_proj"),
    stored("blk.*.ffn_down", "model.layers.*.mlp.down_proj"),
    stored("blk.*.post_ffw_norm", "model.layers.*.post_feedforward_layernorm").plus_one(),
];

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = gemma::later(keys, "gemma2")?;
    caps(keys, &mut config)?;
    // The model of 46 layers divides by another width; its GGUF files do not say so.
    attention_scale(keys, &mut config, 46)?;
    config.windows(keys, |layer| layer % 2 == 0)?;
    Ok(config)
}

/// What scores and logits stay below.
pub(super) fn caps(keys: &Keys, config: &mut ModelConfig) -> Result<()> {
    // In GGUF files 0 is none.
    let cap = |name| {
        let off = |cap: &f32| keys.format() == Format::Gguf && *cap == 0.0;
        Ok(keys.number(name)?.filter(|cap| !off(cap)))
    };
    config.attention_cap = cap("attn_logit_softcapping")?;
    config.logit_cap = cap("final_logit_softcapping")?;
    Ok(())
}

/// What scores are multiplied by: by `query_pre_attn_scalar` in checkpoints; in GGUF files as usual, but for
/// the model of `layers` layers, which divides by the width of the residual stream for each head.
pub(super) fn attention_scale(keys: &Keys, config: &mut ModelConfig, layers: usize) -> Result<()> {
    let given = match keys.format() {
        Format::Gguf => keys.number("attention.scale")?,
        Format::Checkpoint => {
            let divisor = keys.divisor("query_pre_attn_scalar")?;
            divisor.map(|divisor| 1.0 / divisor.sqrt())
        }
    };
    if let Some(scale) = given {
        config.attention_scale = scale;
    } else if keys.format() == Format::Gguf && config.layers.len() == layers {
        config.attention_scale = 1.0 / (config.hidden as f32 / config.heads as f32).sqrt();
    }
    Ok(())
}

fn forward(b: &mut Builder, config: &ModelConfig) -> Result<()> {
    layers(b, config, |_, qkv, _| Ok(qkv))
}

/// Queries, keys and values.
type Qkv = [BufferId; 3];

/// The forward pass; `prepare` is what a layer does to queries, keys and values before they are rotated.
pub(super) fn layers(
    b: &mut Builder,
    config: &ModelConfig,
    prepare: fn(&mut Builder, Qkv, usize) -> Result<Qkv>,
) -> Result<()> {
    let x = b.embedding()?;
    for layer in 0..config.layers.len() {
        let normed = b.norm(x, &name(layer, "attn_norm"), "normed")?;
        let qkv = b.queries_keys_values(normed, layer)?;
        let qkv = prepare(b, qkv, layer)?;
        let attended = b.attention(qkv, layer)?;
        let y = b.linear(attended, &name(layer, "attn_output"), config.hidden, "y")?;
        b.norm_add(y, &name(layer, "post_attention_norm"), x)?;

        let normed = b.norm(x, &name(layer, "ffn_norm"), "normed")?;
        let gated = b.gate(normed, layer)?;
        let y = b.linear(gated, &name(layer, "ffn_down"), config.hidden, "y")?;
        b.norm_add(y, &name(layer, "post_ffw_norm"), x)?;
    }
    b.head(x)
}
