//! Constants that no family asked for: harmless, or a reason to refuse the model.

use super::number;
use crate::{
    error::{Error, Result},
    weights::{Format, Value},
};

/// What a key must be if no family asked for it: otherwise it would change the answer.
enum Neutral {
    /// Anything: it changes nothing.
    Anything,
    /// Nothing but null, or 0 in a GGUF file: it must not be there.
    Absent,
    /// False.
    False,
    /// True.
    True,
    /// This number.
    Number(f64),
    /// A list of this text.
    Each(&'static str),
}

/// Every key of the supported architectures that is part of the mathematics and that not all families
/// read. `a.` stands for `a` and all keys below it.
#[rustfmt::skip]
const CHECKPOINT: &[(&str, Neutral)] = &[
    ("rope_parameters.", Neutral::Absent),
    ("rope_scaling.", Neutral::Absent),
    ("rope_theta", Neutral::Absent),
    ("rope_local_base_freq", Neutral::Absent),
    ("rotary_emb_base", Neutral::Absent),
    ("rotary_pct", Neutral::Number(1.0)),
    ("partial_rotary_factor", Neutral::Number(1.0)),
    ("original_max_position_embeddings", Neutral::Absent),
    ("no_rope_layers", Neutral::Absent),
    ("no_rope_layer_interval", Neutral::Absent),
    ("sliding_window", Neutral::Absent),
    ("use_sliding_window", Neutral::False),
    ("sliding_window_pattern", Neutral::Absent),
    ("layer_types", Neutral::Each("full_attention")),
    ("attention_chunk_size", Neutral::Absent),
    ("attn_logit_softcapping", Neutral::Absent),
    ("final_logit_softcapping", Neutral::Absent),
    ("query_pre_attn_scalar", Neutral::Absent),
    ("attention_multiplier", Neutral::Absent),
    ("embedding_multiplier", Neutral::Number(1.0)),
    ("residual_multiplier", Neutral::Number(1.0)),
    ("logits_scaling", Neutral::Number(1.0)),
    ("logit_scale", Neutral::Number(1.0)),
    ("scale_attn_weights", Neutral::True),
    ("scale_attn_by_inverse_layer_idx", Neutral::False),
    ("clip_qkv", Neutral::Absent),
    ("use_parallel_residual", Neutral::False),
    ("use_bidirectional_attention", Neutral::False),
    ("add_cross_attention", Neutral::False),
    ("is_encoder_decoder", Neutral::False),
    ("hidden_activation", Neutral::Absent),
    ("num_experts", Neutral::Number(0.0)),
    ("num_local_experts", Neutral::Number(0.0)),
    ("norm_topk_prob", Neutral::False),
    ("mlp_only_layers", Neutral::Absent),
    ("decoder_sparse_step", Neutral::Number(1.0)),
    ("quantization_config.", Neutral::Absent),
];

/// Keys of GGUF files, without the architecture, of which 0 or false is not what changes nothing. Any
/// other key of the architecture is taken for mathematics.
#[rustfmt::skip]
const GGUF: &[(&str, Neutral)] = &[
    // How the weights' writer had them.
    ("tensor_data_layout", Neutral::Anything),
    // What only some scalings read, and converters write beside others.
    ("rope.scaling.finetuned", Neutral::Anything),
    ("rope.scaling.original_context_length", Neutral::Anything),
    // Of the norm that the architecture does not have.
    ("attention.layer_norm_epsilon", Neutral::Anything),
    ("attention.layer_norm_rms_epsilon", Neutral::Anything),
    ("attention.causal", Neutral::True),
    ("rope.scaling.attn_factor", Neutral::Number(1.0)),
    ("rope.scaling.yarn_attn_factor", Neutral::Number(1.0)),
    ("rope.scaling.yarn_ext_factor", Neutral::Number(1.0)),
    ("embedding_scale", Neutral::Number(1.0)),
    ("residual_scale", Neutral::Number(1.0)),
    ("logit_scale", Neutral::Number(1.0)),
    // 1 is the softmax.
    ("expert_gating_func", Neutral::Number(1.0)),
    ("expert_weights_scale", Neutral::Number(1.0)),
];

/// Fails if `key`, which nothing read, would change the answer of a model of `family`; `architecture` is
/// the prefix of a GGUF file's keys.
pub(super) fn check(
    format: Format,
    architecture: &str,
    family: &str,
    key: &str,
    value: &Value,
) -> Result<()> {
    let neutral = match format {
        Format::Checkpoint => checkpoint(key),
        Format::Gguf => {
            let name = key.strip_prefix(architecture);
            name.and_then(|name| name.strip_prefix('.')).map(gguf)
        }
    };
    match neutral {
        Some(neutral) if !neutral.allows(format, value) => Err(Error::unsupported(format!(
            "{key} {} is not supported in a {family} model; supported is {}",
            value.kind(),
            neutral.words(format)
        ))),
        _ => Ok(()),
    }
}

fn checkpoint(key: &str) -> Option<&'static Neutral> {
    let known = CHECKPOINT
        .iter()
        .find(|(name, _)| match name.strip_suffix('.') {
            Some(stem) => key == stem || key.starts_with(name),
            None => key == *name,
        });
    known.map(|(_, neutral)| neutral)
}

fn gguf(name: &str) -> &'static Neutral {
    let known = GGUF.iter().find(|(known, _)| *known == name);
    known.map_or(&Neutral::Absent, |(_, neutral)| neutral)
}

impl Neutral {
    fn allows(&self, format: Format, value: &Value) -> bool {
        match (self, value) {
            (_, Value::Null) | (Self::Anything, _) => true,
            (Self::Absent, Value::Integers(items)) => items.is_empty(),
            (Self::Absent, Value::Bool(flag)) => format == Format::Gguf && !flag,
            (Self::Absent, value) => format == Format::Gguf && number(value) == Some(0.0),
            (Self::False, value) => value == &Value::Bool(false),
            (Self::True, value) => value == &Value::Bool(true),
            (Self::Number(x), value) => number(value) == Some(*x),
            (Self::Each(text), Value::Strings(items)) => items.iter().all(|item| item == text),
            (Self::Each(_), _) => false,
        }
    }

    fn words(&self, format: Format) -> String {
        match self {
            Self::Anything => "anything".into(),
            Self::Absent if format == Format::Gguf => "0".into(),
            Self::Absent => "null".into(),
            Self::False => "false".into(),
            Self::True => "true".into(),
            Self::Number(x) => x.to_string(),
            Self::Each(text) => format!("a list of {text:?}"),
        }
    }
}
