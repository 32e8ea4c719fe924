//! OLMo 2: norms after attention and the feed-forward layer instead of before, and on queries and keys.
//!
//! Source: OLMo et al. 2024, and Hugging Face `Olmo2ForCausalLM`.

use crate::{
    error::Result,
    model::{
        Builder, Family, Keys, ModelConfig,
        blocks::name,
        names::{self, Name, name as stored},
    },
    ops::Pairing,
};

pub const FAMILY: Family = Family {
    name: "olmo2",
    architectures: &["olmo2"],
    model_types: &["olmo2"],
    names: NAMES,
    needless: names::FREQUENCIES,
    defaults: &[],
    config,
    forward,
};

#[rustfmt::skip]
const NAMES: &[Name] = &[
    stored("token_embd", "model.embed_tokens"),
    stored("output_norm", "model.norm"),
    stored("output", "lm_head"),
    stored("blk.*.attn_q", "model.layers.*.self_attn.q_proj"),
    stored("blk.*.attn_k", "model.layers.*.self_attn.k_proj"),
    stored("blk.*.attn_v", "model.layers.*.self_attn.v_proj"),
    stored("blk.*.attn_q_norm", "model.layers.*.self_attn.q_norm"),
    stored("blk.*.attn_k_norm", "model.layers.*.self_attn.k_norm"),
    stored("blk.*.attn_output", "model.layers.*.self_attn.o_proj"),
    stored("blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm"),
    stored("blk.*.ffn_gate", "model.layers.*.mlp.gate_proj"),
    stored("blk.*.ffn_up", "model.layers.*.mlp.up_proj"),
    stored("blk.*.ffn_down", "model.layers.*.mlp.down_proj"),
    stored("blk.*.post_ffw_norm", "model.layers.*.post_feedforward_layernorm"),
];

fn config(keys: &Keys) -> Result<ModelConfig> {
    ModelConfig::read(keys, "olmo2", false, Some(Pairing::Halves))
}

fn forward(b: &mut Builder, config: &ModelConfig) -> Result<()> {
    let x = b.embedding()?;
    for layer in 0..config.layers.len() {
        let qkv = b.queries_keys_values(x, layer)?;
        let qkv = b.norm_all_heads(qkv, layer)?;
        let attended = b.attention(qkv, layer)?;
        let y = b.linear(attended, &name(layer, "attn_output"), config.hidden, "y")?;
        b.norm_add(y, &name(layer, "post_attention_norm"), x)?;

        let gated = b.gate(x, layer)?;
        let y = b.linear(gated, &name(layer, "ffn_down"), config.hidden, "y")?;
        b.norm_add(y, &name(layer, "post_ffw_norm"), x)?;
    }
    b.head(x)
}
