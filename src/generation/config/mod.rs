//! The configuration of one call: four layers merged, each value with the layer it came from.
//!
//! For every field the first layer that gives a value wins: the call, the model's
//! `generation_config.json`, what the model's own config says, the library's default. `null` means
//! "not given" in every layer; an explicit 0, false or empty list means what it says.
//!
//! The layers differ in who is at fault. A call with an unknown, unsupported or ill-typed option is an
//! error. A file is not the caller's fault: its unknown keys, and its unsupported keys where they would
//! have an effect, become warnings; a value that is out of range, or contradicts another, is an error only
//! where it would be used, and the caller can override it. So a model loads whatever its file says.

mod combinations;
mod layers;
mod values;

pub use values::EarlyStopping;

use self::{
    layers::Layers,
    values::{FieldValue, honoured},
};
use super::{fields::Watermark, value::Value};
use crate::error::Result;

/// The layer a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The configuration of the call.
    Call,
    /// The model's `generation_config.json`.
    GenerationConfig,
    /// The model's config or tokenizer.
    ModelConfig,
    /// The library's default.
    Library,
    /// Nobody: it follows from another field's value.
    Derived,
}

impl Source {
    /// The layer's name in the plan and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::GenerationConfig => "generation_config.json",
            Self::ModelConfig => "model config",
            Self::Library => "library default",
            Self::Derived => "derived",
        }
    }
}

/// A value and the layer it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it came from.
    pub source: Source,
}

/// A field's effective value as plain data.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanSetting {
    /// The field.
    pub name: &'static str,
    /// Its value.
    pub value: Value,
    /// Where it came from.
    pub source: Source,
}

/// What a model says about itself that generation needs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelFacts {
    /// Scores of a position; ids from here up do not exist.
    pub vocabulary: usize,
    /// Positions that prompt and answer may take together.
    pub context_length: usize,
    /// The token that begins a text.
    pub bos_token_id: Option<u32>,
    /// The tokens that end a text.
    pub eos_token_ids: Vec<u32>,
    /// The token that pads.
    pub pad_token_id: Option<u32>,
}

/// A note about a setting that does not do what its writer may expect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The field.
    pub field: String,
    /// What happens instead, and why.
    pub message: String,
}

/// Declares the configuration: a field of the struct for each honoured field of the table, in the order
/// in which the plan shows them. What each means and allows is in the table.
macro_rules! configuration {
    ($($name:ident: $type:ty,)*) => {
        /// Every honoured field of one call, merged and checked. The table of
        /// [`fields`](super::fields) says what each means.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs)] // their docs are in the table, where the page's types take them from too
        pub struct GenerationConfig {
            $(pub $name: Setting<$type>,)*
            /// What the layers said that has no effect.
            pub warnings: Vec<Warning>,
        }

        impl GenerationConfig {
            fn take(mut layers: Layers) -> Result<Self> {
                Ok(Self {
                    $($name: layers.take(stringify!($name))?,)*
                    warnings: layers.into_warnings(),
                })
            }

            /// Every field with its effective value.
            pub fn settings(&self) -> Vec<PlanSetting> {
                vec![$(PlanSetting {
                    name: stringify!($name),
                    value: self.$name.value.to_value(),
                    source: self.$name.source,
                },)*]
            }
        }
    };
}

configuration! {
    max_length: usize,
    max_new_tokens: Option<usize>,
    min_length: usize,
    min_new_tokens: Option<usize>,
    early_stopping: EarlyStopping,
    max_time: Option<f64>,
    stop_strings: Vec<String>,
    do_sample: bool,
    num_beams: usize,
    use_cache: bool,
    cache_implementation: Option<&'static str>,
    temperature: f64,
    top_k: usize,
    top_p: f64,
    min_p: Option<f64>,
    top_h: Option<f64>,
    typical_p: f64,
    epsilon_cutoff: f64,
    eta_cutoff: f64,
    repetition_penalty: f64,
    encoder_repetition_penalty: f64,
    length_penalty: f64,
    no_repeat_ngram_size: usize,
    bad_words_ids: Vec<Vec<u32>>,
    renormalize_logits: bool,
    forced_bos_token_id: Option<u32>,
    forced_eos_token_id: Option<Vec<u32>>,
    remove_invalid_values: bool,
    exponential_decay_length_penalty: Option<(usize, f64)>,
    suppress_tokens: Vec<u32>,
    begin_suppress_tokens: Vec<u32>,
    sequence_bias: Vec<(Vec<u32>, f64)>,
    token_healing: bool,
    guidance_scale: Option<f64>,
    watermarking_config: Option<Watermark>,
    num_return_sequences: usize,
    output_scores: bool,
    output_logits: bool,
    return_dict_in_generate: bool,
    pad_token_id: Option<u32>,
    bos_token_id: Option<u32>,
    eos_token_id: Vec<u32>,
    encoder_no_repeat_ngram_size: usize,
    num_assistant_tokens: usize,
    num_assistant_tokens_schedule: &'static str,
    assistant_confidence_threshold: f64,
    prompt_lookup_num_tokens: Option<usize>,
    max_matching_ngram_size: Option<usize>,
    assistant_lookbehind: usize,
    target_lookbehind: usize,
    assistant_ensemble_weight: Option<f64>,
    prefill_chunk_size: Option<usize>,
    seed: Option<u64>,
    logit_bias: Vec<(u32, f64)>,
    frequency_penalty: f64,
    presence_penalty: f64,
    dry_multiplier: f64,
    dry_base: f64,
    dry_allowed_length: usize,
    dry_penalty_last_n: usize,
    dry_sequence_breaker_ids: Vec<u32>,
    top_n_sigma: Option<f64>,
    xtc_probability: f64,
    xtc_threshold: f64,
    mirostat_mode: usize,
    mirostat_tau: f64,
    mirostat_eta: f64,
    top_logprobs: Option<usize>,
}

impl GenerationConfig {
    /// Fails if `file`, which `generation_config.json` holds, is no object. Whatever else is wrong with it, a call
    /// may override.
    pub(super) fn check_file(file: &Value) -> Result<()> {
        layers::of_file(file).map(drop)
    }

    /// Merges `call` and `file`, objects or null, with what `model` says and the library's defaults.
    pub fn merge(call: &Value, file: &Value, model: &ModelFacts) -> Result<Self> {
        let mut layers = Layers::new(call, file, model)?;
        // A file's sampling fields mean nothing to a greedy call, whatever their values.
        layers.sampling = layers.take::<bool>("do_sample")?.value;
        let mut config = Self::take(layers)?;
        if config.pad_token_id.value.is_none()
            && let Some(&first) = config.eos_token_id.value.first()
        {
            config.pad_token_id.value = Some(first);
            config.pad_token_id.source = Source::Derived;
        }
        config.check(model)?;
        Ok(config)
    }
}

/// Fields that only sampling reads.
pub(super) const SAMPLING_FIELDS: [&str; 15] = [
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "top_h",
    "typical_p",
    "epsilon_cutoff",
    "eta_cutoff",
    "seed",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
    "mirostat_mode",
    "mirostat_tau",
    "mirostat_eta",
];
