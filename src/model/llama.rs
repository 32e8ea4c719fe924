//! The Llama family: RMSNorm, rotary embedding, grouped-query attention, gated SiLU.
//!
//! Source: Touvron et al. 2023, and Hugging Face `LlamaForCausalLM`.

use super::{Builder, Family, Keys, ModelConfig, Rope, names};
use crate::{
    error::Result,
    ops::{Activation, Pairing},
    weights::Format,
};

pub const FAMILY: Family = Family {
    name: "llama",
    architectures: &["llama"],
    model_types: &["llama"],
    names: names::LLAMA,
    config,
    forward,
};

fn config(keys: &Keys) -> Result<ModelConfig> {
    let none = |scaling: &&str| matches!(*scaling, "none" | "default");
    if let Some(scaling) = keys.text("rope.scaling.type")?.filter(|s| !none(s)) {
        let found = format!("{scaling:?}");
        return Err(keys.unsupported("rope.scaling.type", &found, "\"none\""));
    }
    // Older files scale positions by a key without a type.
    if let Some(scale) = keys.number("rope.scale_linear")?.filter(|&x| x != 1.0) {
        return Err(keys.unsupported("rope.scale_linear", &scale.to_string(), "1"));
    }
    if let Some(experts) = keys.count("expert_count")?.filter(|&n| n > 0) {
        return Err(keys.unsupported("expert_count", &experts.to_string(), "0"));
    }
    if let Some(activation) = keys.text("activation")?.filter(|&name| name != "silu") {
        let found = format!("{activation:?}");
        return Err(keys.unsupported("activation", &found, "\"silu\""));
    }
    let (hidden, heads) = (
        keys.required_count("embedding_length")?,
        keys.required_count("attention.head_count")?,
    );
    let head_dim = match keys.count("attention.key_length")? {
        Some(head_dim) => head_dim,
        None => hidden.checked_div(heads).unwrap_or(0),
    };
    let name = "attention.value_length";
    if let Some(values) = keys.count(name)?.filter(|&values| values != head_dim) {
        let supported = format!("{head_dim}, the length of keys");
        return Err(keys.unsupported(name, &values.to_string(), &supported));
    }
    let vocabulary = match keys.count("vocab_size")? {
        Some(vocabulary) => vocabulary,
        None => keys
            .metadata()
            .strings("tokenizer.ggml.tokens")?
            .map_or(0, <[String]>::len),
    };
    Ok(ModelConfig {
        architecture: "llama",
        layers: keys.required_count("block_count")?,
        hidden,
        intermediate: keys.required_count("feed_forward_length")?,
        heads,
        kv_heads: keys.count("attention.head_count_kv")?.unwrap_or(heads),
        head_dim,
        vocabulary,
        max_positions: keys.required_count("context_length")?,
        norm_epsilon: keys.required_number("attention.layer_norm_rms_epsilon")?,
        rope: Rope {
            theta: keys.number("rope.freq_base")?.unwrap_or(10_000.0),
            dims: keys.count("rope.dimension_count")?.unwrap_or(head_dim),
            // GGUF files of this family hold query and key rows in the order of neighbouring pairs.
            pairing: match keys.format() {
                Format::Gguf => Pairing::Neighbours,
                Format::Checkpoint => Pairing::Halves,
            },
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
