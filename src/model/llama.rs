//! The Llama family: RMSNorm, rotary embedding, grouped-query attention, gated SiLU.
//!
//! Source: Touvron et al. 2023, and Hugging Face `LlamaForCausalLM`.

use super::{Builder, Family, ModelConfig, Rope};
use crate::{
    error::{Error, Result},
    ops::{Activation, Pairing},
    weights::Metadata,
};

pub const FAMILY: Family = Family {
    name: "llama",
    config,
    forward,
};

fn config(metadata: &Metadata) -> Result<ModelConfig> {
    let key = |name: &str| format!("llama.{name}");
    let optional = |name: &str| Ok(metadata.u32(&key(name))?.map(|value| value as usize));
    let required =
        |name: &str| optional(name)?.ok_or_else(|| Error::weights(key(name), "the key is missing"));
    let number = |name: &str, default: Option<f32>| {
        let value = metadata.f32(&key(name))?.or(default);
        value.ok_or_else(|| Error::weights(key(name), "the key is missing"))
    };
    if let Some(scaling) = metadata
        .str(&key("rope.scaling.type"))?
        .filter(|&scaling| scaling != "none")
    {
        let name = key("rope.scaling.type");
        return Err(Error::unsupported(format!(
            "{name} {scaling:?} is not supported; supported is \"none\""
        )));
    }
    // Older files scale positions by a key without a type.
    if let Some(scale) = metadata
        .f32(&key("rope.scale_linear"))?
        .filter(|&scale| scale != 1.0)
    {
        return Err(Error::unsupported(format!(
            "{} {scale} is not supported; supported is 1",
            key("rope.scale_linear")
        )));
    }
    if let Some(experts) = optional("expert_count")?.filter(|&experts| experts > 0) {
        return Err(Error::unsupported(format!(
            "{} {experts}: mixtures are not supported",
            key("expert_count")
        )));
    }
    let (hidden, heads) = (
        required("embedding_length")?,
        required("attention.head_count")?,
    );
    let head_dim = match optional("attention.key_length")? {
        Some(head_dim) => head_dim,
        None => hidden.checked_div(heads).unwrap_or(0),
    };
    if let Some(values) = optional("attention.value_length")?.filter(|&values| values != head_dim) {
        let message =
            format!("{values} differs from the key length {head_dim}, which is not supported");
        return Err(Error::unsupported(format!(
            "{}: {message}",
            key("attention.value_length")
        )));
    }
    let vocabulary = match optional("vocab_size")? {
        Some(vocabulary) => vocabulary,
        None => metadata
            .strings("tokenizer.ggml.tokens")?
            .map_or(0, <[String]>::len),
    };
    Ok(ModelConfig {
        architecture: "llama",
        layers: required("block_count")?,
        hidden,
        intermediate: required("feed_forward_length")?,
        heads,
        kv_heads: optional("attention.head_count_kv")?.unwrap_or(heads),
        head_dim,
        vocabulary,
        max_positions: required("context_length")?,
        norm_epsilon: number("attention.layer_norm_rms_epsilon", None)?,
        rope: Rope {
            theta: number("rope.freq_base", Some(10_000.0))?,
            dims: optional("rope.dimension_count")?.unwrap_or(head_dim),
            // GGUF files of this family hold query and key rows in the order of neighbouring pairs.
            pairing: Pairing::Neighbours,
        },
    })
}

fn forward(b: &mut Builder, config: &ModelConfig) -> Result<()> {
    let ModelConfig {
        hidden,
        heads,
        kv_heads,
        head_dim,
        vocabulary,
        norm_epsilon,
        ..
    } = *config;
    let x = b.buffer("hidden", hidden);
    b.embed("token_embd.weight", vocabulary, x)?;
    for layer in 0..config.layers {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let normed = b.rms_norm(x, &name("attn_norm.weight"), norm_epsilon, "normed")?;
        let q = b.linear(normed, &name("attn_q"), heads * head_dim, "q")?;
        let k = b.linear(normed, &name("attn_k"), kv_heads * head_dim, "k")?;
        let v = b.linear(normed, &name("attn_v"), kv_heads * head_dim, "v")?;
        let attended = b.attention([q, k, v], layer, heads, &config.rope)?;
        b.linear_add(attended, &name("attn_output"), x)?;

        let normed = b.rms_norm(x, &name("ffn_norm.weight"), norm_epsilon, "normed")?;
        let (gate, up) = (name("ffn_gate.weight"), name("ffn_up.weight"));
        let gated = b.gated(normed, &gate, &up, Activation::Silu, config.intermediate)?;
        b.linear_add(gated, &name("ffn_down"), x)?;
    }
    let selected = b.select_rows(x);
    let normed = b.rms_norm(selected, "output_norm.weight", norm_epsilon, "normed")?;
    // A tied model has no output matrix of its own.
    let head = if b.has("output.weight") {
        "output.weight"
    } else {
        "token_embd.weight"
    };
    b.logits(normed, head, vocabulary)
}
