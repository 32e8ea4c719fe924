//! GPT-NeoX and Pythia: layer norms, biases, partial rotary embedding, perhaps parallel parts.
//!
//! Source: Black et al. 2022, and Hugging Face `GPTNeoXForCausalLM`.

use super::phi3::queries_keys_values;
use crate::{
    error::Result,
    model::{
        Assumed, Builder, Family, Keys, ModelConfig, Outputs,
        blocks::name,
        names::{Name, name as stored},
    },
    ops::{Activation, Pairing},
    weights::Format,
};

pub const FAMILY: Family = Family {
    name: "gpt_neox",
    architectures: &["gptneox"],
    model_types: &["gpt_neox"],
    names: NAMES,
    needless: &[
        ".rotary_emb.inv_freq",
        ".attention.bias",
        ".attention.masked_bias",
    ],
    defaults: &[
        ("activation", Assumed::Text("gelu")),
        ("rope.partial_factor", Assumed::Number(0.25)),
    ],
    config,
    forward,
};

const QKV: &str = "gpt_neox.layers.*.attention.query_key_value";

#[rustfmt::skip]
const NAMES: &[Name] = &[
    stored("token_embd", "gpt_neox.embed_in"),
    stored("output_norm", "gpt_neox.final_layer_norm"),
    stored("output", "embed_out"),
    stored("blk.*.attn_norm", "gpt_neox.layers.*.input_layernorm"),
    stored("blk.*.attn_q", QKV).outputs(|c| of_each_head(c, 0)).fused("blk.*.attn_qkv", |c| queries_keys_values(c, 0)),
    stored("blk.*.attn_k", QKV).outputs(|c| of_each_head(c, 1)).fused("blk.*.attn_qkv", |c| queries_keys_values(c, 1)),
    stored("blk.*.attn_v", QKV).outputs(|c| of_each_head(c, 2)).fused("blk.*.attn_qkv", |c| queries_keys_values(c, 2)),
    stored("blk.*.attn_output", "gpt_neox.layers.*.attention.dense"),
    stored("blk.*.ffn_norm", "gpt_neox.layers.*.post_attention_layernorm"),
    stored("blk.*.ffn_up", "gpt_neox.layers.*.mlp.dense_h_to_4h"),
    stored("blk.*.ffn_down", "gpt_neox.layers.*.mlp.dense_4h_to_h"),
];

/// Checkpoints have query (0), key (1) and value (2) of one head after those of another.
fn of_each_head(config: &ModelConfig, which: usize) -> Vec<Outputs> {
    let count = config.head_dim;
    let heads = (0..config.heads).map(|head| Outputs {
        from: (3 * head + which) * count,
        count,
    });
    heads.collect()
}

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, "gpt_neox", true, Some(Pairing::Halves))?;
    config.parallel = keys.flag("use_parallel_residual")?.unwrap_or(true);
    // GGUF files do not say; there is only one kind of them.
    if keys.format() == Format::Gguf {
        config.activation = Activation::Gelu;
    }
    Ok(config)
}

fn forward(b: &mut Builder, config: &ModelConfig) -> Result<()> {
    let x = b.embedding()?;
    for layer in 0..config.layers.len() {
        let normed = b.norm(x, &name(layer, "attn_norm"), "normed")?;
        let ffn_norm = name(layer, "ffn_norm");
        // Parallel parts see the same residual stream, so the second norm comes before the first sum.
        let before = match config.parallel {
            true => Some(b.norm(x, &ffn_norm, "normed too")?),
            false => None,
        };
        let qkv = b.queries_keys_values(normed, layer)?;
        let attended = b.attention(qkv, layer)?;
        b.linear_add(attended, &name(layer, "attn_output"), x)?;

        let normed = match before {
            Some(normed) => normed,
            None => b.norm(x, &ffn_norm, "normed")?,
        };
        b.plain_feed_forward(normed, layer, x)?;
    }
    b.head(x)
}
