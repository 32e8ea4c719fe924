//! LFM2: most layers are short convolutions between two gates, the others attention with the heads of
//! queries and keys normalised.
//!
//! Source: Liquid AI 2025, and Hugging Face `Lfm2ForCausalLM`.

use crate::{
    error::{Error, Result},
    model::{
        Assumed, Builder, Family, Keys, ModelConfig,
        blocks::name,
        names::{self, Name, name as stored},
    },
    ops::Pairing,
    weights::{Format, Value},
};

pub const FAMILY: Family = Family {
    name: "lfm2",
    architectures: &["lfm2"],
    model_types: &["lfm2"],
    names: NAMES,
    needless: names::FREQUENCIES,
    defaults: &[
        ("rope.freq_base", Assumed::Number(1_000_000.0)),
        ("attention.head_count_kv", Assumed::Number(8.0)),
        ("attention.layer_norm_rms_epsilon", Assumed::Number(1e-5)),
        ("feed_forward_length", Assumed::Number(12_288.0)),
        ("block_auto_adjust_ff_dim", Assumed::Flag(true)),
        ("shortconv.l_cache", Assumed::Number(3.0)),
        ("tie_word_embeddings", Assumed::Flag(true)),
    ],
    config,
    forward,
};

#[rustfmt::skip]
const NAMES: &[Name] = &[
    stored("token_embd", "model.embed_tokens"),
    // The last norm, whatever GGUF calls it.
    stored("token_embd_norm", "model.embedding_norm"),
    stored("output", "lm_head"),
    stored("blk.*.attn_norm", "model.layers.*.operator_norm"),
    stored("blk.*.attn_q", "model.layers.*.self_attn.q_proj"),
    stored("blk.*.attn_k", "model.layers.*.self_attn.k_proj"),
    stored("blk.*.attn_v", "model.layers.*.self_attn.v_proj"),
    stored("blk.*.attn_q_norm", "model.layers.*.self_attn.q_layernorm"),
    stored("blk.*.attn_k_norm", "model.layers.*.self_attn.k_layernorm"),
    stored("blk.*.attn_output", "model.layers.*.self_attn.out_proj"),
    stored("blk.*.shortconv.in_proj", "model.layers.*.conv.in_proj"),
    stored("blk.*.shortconv.conv", "model.layers.*.conv.conv"),
    stored("blk.*.shortconv.out_proj", "model.layers.*.conv.out_proj"),
    stored("blk.*.ffn_norm", "model.layers.*.ffn_norm"),
    stored("blk.*.ffn_gate", "model.layers.*.feed_forward.w1"),
    stored("blk.*.ffn_up", "model.layers.*.feed_forward.w3"),
    stored("blk.*.ffn_down", "model.layers.*.feed_forward.w2"),
];

fn config(keys: &Keys) -> Result<ModelConfig> {
    let (kv_heads, listed) = kv_heads(keys)?;
    let pairing = Some(Pairing::Halves);
    let mut config = ModelConfig::with_kv_heads(keys, "lfm2", false, pairing, kv_heads)?;
    let convolves = match keys.format() {
        Format::Gguf => listed,
        Format::Checkpoint => {
            config.intermediate = intermediate(keys, config.intermediate)?;
            layer_types(keys, config.layers.len())?
        }
    };
    if let Some(convolves) = convolves {
        let layers = config.layers.len();
        if convolves.len() != layers {
            let message = format!("{} numbers for {layers} layers", convolves.len());
            let key = keys.key("attention.head_count_kv");
            return Err(Error::weights(key, message));
        }
        for (layer, convolves) in config.layers.iter_mut().zip(convolves) {
            layer.convolves = convolves;
            layer.rope = layer.rope.filter(|_| !convolves);
        }
    }
    config.taps = keys.required_count("shortconv.l_cache")?;
    Ok(config)
}

/// The number of key-value heads, and, where a GGUF file has a number for each layer, which of them
/// convolve: those that have none.
fn kv_heads(keys: &Keys) -> Result<(Option<usize>, Option<Vec<bool>>)> {
    let name = "attention.head_count_kv";
    let value = keys.metadata().get(&keys.key(name));
    if !matches!(value, Some(Value::Integers(_))) {
        return Ok((keys.count(name)?, None));
    }
    let listed = keys.integers(name)?.unwrap_or_default();
    let mut attention = listed.iter().filter(|&&heads| heads != 0);
    let heads = attention.next().copied().unwrap_or(0);
    if let Some(other) = attention.find(|&&other| other != heads) {
        let found = format!("of {heads} and {other}");
        return Err(keys.unsupported(name, &found, "one number for all layers of attention"));
    }
    let message = || format!("{heads} heads are not possible");
    let count = u32::try_from(heads).map_err(|_| Error::weights(keys.key(name), message()))?;
    let convolves = listed.iter().map(|&heads| heads == 0).collect();
    Ok((Some(count as usize), Some(convolves)))
}

/// Which layers of a checkpoint convolve; none if it does not say.
fn layer_types(keys: &Keys, layers: usize) -> Result<Option<Vec<bool>>> {
    let name = "layer_types";
    let types = keys.texts(name)?.map(|types| {
        let kind = |text: &String| match &**text {
            "conv" => Ok(true),
            "full_attention" => Ok(false),
            other => Err(keys.unsupported(name, &format!("{other:?}"), "conv, full_attention")),
        };
        types.iter().map(kind).collect::<Result<Vec<_>>>()
    });
    let types = types.transpose()?;
    if let Some(types) = types.as_ref().filter(|types| types.len() != layers) {
        let message = format!("{} types for {layers} layers", types.len());
        return Err(Error::weights(keys.key(name), message));
    }
    let older = "full_attn_idxs";
    let attention = keys.integers(older)?;
    let listed = attention.map(|attention| {
        let convolves = |layer| !attention.contains(&(layer as i64));
        (0..layers).map(convolves).collect::<Vec<_>>()
    });
    match (types, listed) {
        (Some(types), Some(listed)) if types != listed => {
            let message = format!("it contradicts {name}");
            Err(Error::weights(older, message))
        }
        (types, listed) => Ok(types.or(listed)),
    }
}

/// The width of a checkpoint's feed-forward layers, which the first releases call otherwise: unless it says
/// no, two thirds of the number it has, rounded up.
fn intermediate(keys: &Keys, listed: usize) -> Result<usize> {
    let width = keys.count("block_ff_dim")?.unwrap_or(listed);
    let step = keys.step("block_multiple_of", 256)?;
    let factor = keys.number("block_ffn_dim_multiplier")?.unwrap_or(1.0);
    if keys.flag("block_auto_adjust_ff_dim")? != Some(true) {
        return Ok(width);
    }
    // What is too large for the cast stays so large that it is refused.
    let width = (f64::from(factor) * (width as u64 * 2 / 3) as f64) as usize;
    Ok(width.checked_next_multiple_of(step).unwrap_or(usize::MAX))
}

fn forward(b: &mut Builder, config: &ModelConfig) -> Result<()> {
    let x = b.embedding()?;
    for layer in 0..config.layers.len() {
        let normed = b.norm(x, &name(layer, "attn_norm"), "normed")?;
        if config.layers[layer].convolves {
            let convolved = b.short_conv(normed, layer)?;
            b.linear_add(convolved, &name(layer, "shortconv.out_proj"), x)?;
        } else {
            let qkv = b.queries_keys_values(normed, layer)?;
            let qkv = b.norm_each_head(qkv, layer)?;
            let attended = b.attention(qkv, layer)?;
            b.linear_add(attended, &name(layer, "attn_output"), x)?;
        }

        let normed = b.norm(x, &name(layer, "ffn_norm"), "normed")?;
        b.feed_forward(normed, layer, x)?;
    }
    b.head_after(x, "token_embd_norm")
}
