//! A model's constants by one name each, whichever file they stand in.
//!
//! Families ask for the names of GGUF, without the architecture's prefix. In a checkpoint's
//! `config.json` the same constant has another name, by the table below; a name that is not in the table
//! is spelled alike in both. What `config.json` says and nothing asked for is looked through by
//! [`Keys::check_all_read`], so that a constant that this code does not know is never ignored.

use std::{cell::RefCell, collections::BTreeSet};

use crate::{
    error::{Error, Result},
    weights::{Format, Metadata, Value},
};

/// Names of GGUF, and those of `config.json`: of transformers 5 first, then of version 4 and of single
/// families.
#[rustfmt::skip]
const NAMES: &[(&str, &[&str])] = &[
    ("block_count", &["num_hidden_layers", "n_layer"]),
    ("embedding_length", &["hidden_size", "n_embd"]),
    ("feed_forward_length", &["intermediate_size", "n_inner"]),
    ("context_length", &["max_position_embeddings", "n_positions"]),
    ("attention.head_count", &["num_attention_heads", "n_head"]),
    ("attention.head_count_kv", &["num_key_value_heads"]),
    ("attention.key_length", &["head_dim"]),
    ("attention.value_length", &["v_head_dim"]),
    ("attention.layer_norm_rms_epsilon", &["rms_norm_eps", "norm_eps"]),
    ("attention.layer_norm_epsilon", &["layer_norm_eps", "layer_norm_epsilon"]),
    ("attention.sliding_window", &["sliding_window"]),
    ("attention.sliding_window_pattern", &["sliding_window_pattern", "_sliding_window_pattern"]),
    ("attention.scale", &["attention_multiplier"]),
    ("attn_logit_softcapping", &["attn_logit_softcapping"]),
    ("embedding_scale", &["embedding_multiplier"]),
    ("residual_scale", &["residual_multiplier"]),
    ("activation", &["hidden_act", "activation_function"]),
    ("expert_count", &["num_experts", "num_local_experts"]),
    ("expert_used_count", &["num_experts_per_tok"]),
    ("expert_feed_forward_length", &["moe_intermediate_size"]),
    ("rope.freq_base", &[
        "rope_parameters.rope_theta",
        "rope_parameters.full_attention.rope_theta",
        "rope_theta",
        "rotary_emb_base",
    ]),
    ("rope.freq_base_swa", &["rope_parameters.sliding_attention.rope_theta", "rope_local_base_freq"]),
    ("rope.partial_factor", &["rope_parameters.partial_rotary_factor", "partial_rotary_factor", "rotary_pct"]),
    ("rope.scaling.type", &[
        "rope_parameters.rope_type",
        "rope_parameters.full_attention.rope_type",
        "rope_scaling.rope_type",
        "rope_scaling.type",
    ]),
    ("rope.scaling_swa.type", &["rope_parameters.sliding_attention.rope_type"]),
    ("rope.scaling.factor", &[
        "rope_parameters.factor",
        "rope_parameters.full_attention.factor",
        "rope_scaling.factor",
    ]),
    ("rope.scaling.attn_factor", &["rope_parameters.attention_factor", "rope_scaling.attention_factor"]),
    ("rope.scaling.original_context_length", &[
        "rope_parameters.original_max_position_embeddings",
        "rope_scaling.original_max_position_embeddings",
        "original_max_position_embeddings",
    ]),
    ("rope.scaling.low_freq_factor", &["rope_parameters.low_freq_factor", "rope_scaling.low_freq_factor"]),
    ("rope.scaling.high_freq_factor", &["rope_parameters.high_freq_factor", "rope_scaling.high_freq_factor"]),
    ("rope.scaling.yarn_beta_fast", &["rope_parameters.beta_fast", "rope_scaling.beta_fast"]),
    ("rope.scaling.yarn_beta_slow", &["rope_parameters.beta_slow", "rope_scaling.beta_slow"]),
    ("rope.scaling.truncate", &["rope_parameters.truncate", "rope_scaling.truncate"]),
    ("rope.scaling.mscale", &["rope_parameters.mscale", "rope_scaling.mscale"]),
    ("rope.scaling.mscale_all_dim", &["rope_parameters.mscale_all_dim", "rope_scaling.mscale_all_dim"]),
    ("rope.scaling.short_factor", &["rope_parameters.short_factor", "rope_scaling.short_factor"]),
    ("rope.scaling.long_factor", &["rope_parameters.long_factor", "rope_scaling.long_factor"]),
];

/// What a key of `config.json` must be if no family asked for it: otherwise it would change the answer.
enum Neutral {
    /// Nothing but null: it must not be there.
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

/// Every key of the supported architectures that is part of the mathematics. `a.` stands for all keys
/// below `a`.
#[rustfmt::skip]
const MATHEMATICS: &[(&str, Neutral)] = &[
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
    ("attention_bias", Neutral::False),
    ("mlp_bias", Neutral::False),
    ("use_qkv_bias", Neutral::False),
    ("conv_bias", Neutral::False),
    ("use_qk_norm", Neutral::False),
    ("qk_layernorm", Neutral::False),
    ("use_parallel_residual", Neutral::False),
    ("use_bidirectional_attention", Neutral::False),
    ("add_cross_attention", Neutral::False),
    ("is_encoder_decoder", Neutral::False),
    ("hidden_act", Neutral::Absent),
    ("hidden_activation", Neutral::Absent),
    ("activation_function", Neutral::Absent),
    ("v_head_dim", Neutral::Absent),
    ("num_experts", Neutral::Number(0.0)),
    ("num_local_experts", Neutral::Number(0.0)),
    ("n_routed_experts", Neutral::Number(0.0)),
    ("norm_topk_prob", Neutral::False),
    ("mlp_only_layers", Neutral::Absent),
    ("decoder_sparse_step", Neutral::Number(1.0)),
    ("num_nextn_predict_layers", Neutral::Number(0.0)),
    ("quantization_config.", Neutral::Absent),
];

/// The constants of one model.
pub struct Keys<'a> {
    metadata: &'a Metadata,
    format: Format,
    /// The prefix of keys in a GGUF file.
    architecture: &'a str,
    /// Keys of `config.json` that were asked for.
    read: RefCell<BTreeSet<String>>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(metadata: &'a Metadata, format: Format, architecture: &'a str) -> Self {
        Self {
            metadata,
            format,
            architecture,
            read: RefCell::default(),
        }
    }

    /// Whose conventions the model follows.
    pub fn format(&self) -> Format {
        self.format
    }

    /// All metadata, for what is not a constant of the architecture.
    pub fn metadata(&self) -> &'a Metadata {
        self.metadata
    }

    /// The key that `name` stands for in this model's file, for messages.
    pub fn key(&self, name: &str) -> String {
        match self.format {
            Format::Gguf => format!("{}.{name}", self.architecture),
            Format::Checkpoint => {
                let spellings = spellings(&name);
                let found = spellings
                    .iter()
                    .find(|key| self.metadata.0.contains_key(**key));
                (*found.unwrap_or(&spellings[0])).to_owned()
            }
        }
    }

    /// A number of things.
    pub fn count(&self, name: &str) -> Result<Option<usize>> {
        let value = self.metadata.u32(&self.find(name)?)?;
        Ok(value.map(|value| value as usize))
    }

    /// A number of things that must be given.
    pub fn required_count(&self, name: &str) -> Result<usize> {
        self.count(name)?.ok_or_else(|| self.missing(name))
    }

    /// A number.
    pub fn number(&self, name: &str) -> Result<Option<f32>> {
        self.metadata.f32(&self.find(name)?)
    }

    /// A number that must be given.
    pub fn required_number(&self, name: &str) -> Result<f32> {
        self.number(name)?.ok_or_else(|| self.missing(name))
    }

    /// A list of numbers.
    pub fn numbers(&self, name: &str) -> Result<Option<Vec<f32>>> {
        self.metadata.f32s(&self.find(name)?)
    }

    /// A list of integers.
    pub fn integers(&self, name: &str) -> Result<Option<&'a [i64]>> {
        self.metadata.integers(&self.find(name)?)
    }

    /// A truth value.
    pub fn flag(&self, name: &str) -> Result<Option<bool>> {
        self.metadata.bool(&self.find(name)?)
    }

    /// Text.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>> {
        self.metadata.str(&self.find(name)?)
    }

    /// A list of texts.
    pub fn texts(&self, name: &str) -> Result<Option<&'a [String]>> {
        self.metadata.strings(&self.find(name)?)
    }

    /// The error of a constant whose value, `found`, this code has no support for.
    pub fn unsupported(&self, name: &str, found: &str, supported: &str) -> Error {
        let key = self.key(name);
        Error::unsupported(format!(
            "{key} {found} is not supported; supported is {supported}"
        ))
    }

    /// Fails if `config.json` holds a constant that nothing asked for and that would change the answer.
    pub(super) fn check_all_read(&self, family: &str) -> Result<()> {
        if self.format == Format::Gguf {
            return Ok(());
        }
        let read = self.read.borrow();
        for (key, value) in &self.metadata.0 {
            let known = MATHEMATICS
                .iter()
                .find(|(name, _)| key == name || (name.ends_with('.') && key.starts_with(name)));
            let Some((_, neutral)) = known else { continue };
            if !read.contains(key) && !neutral.allows(value) {
                return Err(Error::unsupported(format!(
                    "{key} {} is not supported in a {family} model; supported is {}",
                    value.kind(),
                    neutral.words()
                )));
            }
        }
        Ok(())
    }

    fn missing(&self, name: &str) -> Error {
        Error::weights(self.key(name), "the key is missing")
    }

    /// The key of `name`, noted as read. Fails if it is there in two spellings that differ.
    fn find(&self, name: &str) -> Result<String> {
        let key = self.key(name);
        if self.format == Format::Gguf {
            return Ok(key);
        }
        for other in spellings(&name) {
            let Some(value) = self.metadata.0.get(*other) else {
                continue;
            };
            self.read.borrow_mut().insert((*other).to_owned());
            if !same(value, &self.metadata.0[&key]) {
                let message = format!(
                    "{} contradicts {other}, which is {}",
                    self.metadata.0[&key].kind(),
                    value.kind()
                );
                return Err(Error::weights(key, message));
            }
        }
        Ok(key)
    }
}

/// The names in `config.json` of what GGUF calls `name`.
fn spellings<'b>(name: &'b &'b str) -> &'b [&'b str] {
    let known = NAMES.iter().find(|(gguf, _)| gguf == name);
    known.map_or(std::slice::from_ref(name), |(_, keys)| keys)
}

/// Whether two values say the same, be they integers or floats.
fn same(a: &Value, b: &Value) -> bool {
    a == b || number(a).is_some_and(|x| Some(x) == number(b))
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Unsigned(n) => Some(*n as f64),
        Value::Signed(n) => Some(*n as f64),
        Value::Float(x) => Some(*x),
        _ => None,
    }
}

impl Neutral {
    fn allows(&self, value: &Value) -> bool {
        match self {
            Self::Absent => matches!(value, Value::Integers(items) if items.is_empty()),
            Self::False => value == &Value::Bool(false),
            Self::True => value == &Value::Bool(true),
            Self::Number(x) => number(value) == Some(*x),
            Self::Each(text) => {
                matches!(value, Value::Strings(items) if items.iter().all(|item| item == text))
            }
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Absent => "null".into(),
            Self::False => "false".into(),
            Self::True => "true".into(),
            Self::Number(x) => x.to_string(),
            Self::Each(text) => format!("a list of {text:?}"),
        }
    }
}
