//! The configuration of one call: four layers merged, each value with the layer it came from.
//!
//! For every field the first layer that gives a value wins: the call, the model's
//! `generation_config.json`, what the model's own config says, the library's default. `null` means
//! "not given" in every layer; an explicit 0, false or empty list means what it says.
//!
//! The layers differ in who is at fault. A call with an unknown, unsupported or ill-typed option is an
//! error. A file is not the caller's fault: its unknown keys, and its unsupported keys where they would
//! have an effect, become warnings; a value that is out of range is an error only where it would be
//! used, and the caller can override it.

use super::{
    fields::{self, Checked, FIELDS, Field, Status},
    value::Value,
};
use crate::error::{Error, Result};

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
}

impl Source {
    /// The layer's name in the plan and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::GenerationConfig => "generation_config.json",
            Self::ModelConfig => "model config",
            Self::Library => "library default",
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

/// Every honoured field of one call, merged and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerationConfig {
    /// Draw tokens instead of taking the best.
    pub do_sample: Setting<bool>,
    /// Divisor of the scores, above 0.
    pub temperature: Setting<f64>,
    /// Best tokens kept; 0 keeps all.
    pub top_k: Setting<usize>,
    /// Probability of the kept set.
    pub top_p: Setting<f64>,
    /// Share of the best token's probability below which tokens are dropped.
    pub min_p: Setting<Option<f64>>,
    /// Divisor of the scores of tokens seen before, above 0.
    pub repetition_penalty: Setting<f64>,
    /// Tokens of the answer.
    pub max_new_tokens: Setting<Option<usize>>,
    /// Tokens of prompt and answer; from the library, tokens of the answer.
    pub max_length: Setting<usize>,
    /// Seconds.
    pub max_time: Setting<Option<f64>>,
    /// Texts that end the answer.
    pub stop_strings: Setting<Vec<String>>,
    /// Tokens that end the answer.
    pub eos_token_id: Setting<Vec<u32>>,
    /// Token that an empty prompt may begin with.
    pub bos_token_id: Setting<Option<u32>>,
    /// Token that pads: the first end token unless given.
    pub pad_token_id: Setting<Option<u32>>,
    /// Seed of the draws.
    pub seed: Setting<Option<u64>>,
    /// What the layers said that has no effect.
    pub warnings: Vec<Warning>,
}

impl GenerationConfig {
    /// Merges `call` and `file`, objects or null, with what `model` says and the library's defaults.
    pub fn merge(call: &Value, file: &Value, model: &ModelFacts) -> Result<Self> {
        let mut layers = Layers::new(call, file, model)?;
        let do_sample = layers.take("do_sample", boolean)?;
        // A file's sampling fields mean nothing to a greedy call, whatever their values.
        layers.sampling = do_sample.value;
        let mut config = Self {
            do_sample,
            temperature: layers.take("temperature", number)?,
            top_k: layers.take("top_k", length)?,
            top_p: layers.take("top_p", number)?,
            min_p: layers.maybe("min_p", number)?,
            repetition_penalty: layers.take("repetition_penalty", number)?,
            max_new_tokens: layers.maybe("max_new_tokens", length)?,
            max_length: layers.take("max_length", length)?,
            max_time: layers.maybe("max_time", number)?,
            stop_strings: layers.list("stop_strings", texts)?,
            eos_token_id: layers.list("eos_token_id", tokens)?,
            bos_token_id: layers.maybe("bos_token_id", token)?,
            pad_token_id: layers.maybe("pad_token_id", token)?,
            seed: layers.maybe("seed", integer)?,
            warnings: layers.warnings,
        };
        if config.pad_token_id.value.is_none() {
            config.pad_token_id.value = config.eos_token_id.value.first().copied();
            config.pad_token_id.source = config.eos_token_id.source;
        }
        Ok(config)
    }
}

/// Fields that only sampling reads.
pub(super) const SAMPLING_FIELDS: [&str; 5] = ["temperature", "top_k", "top_p", "min_p", "seed"];

/// The layers while they are being merged.
struct Layers<'a> {
    call: &'a Value,
    file: &'a Value,
    model: &'a ModelFacts,
    sampling: bool,
    warnings: Vec<Warning>,
}

impl<'a> Layers<'a> {
    fn new(call: &'a Value, file: &'a Value, model: &'a ModelFacts) -> Result<Self> {
        let mut layers = Self {
            call,
            file,
            model,
            sampling: true,
            warnings: Vec::new(),
        };
        for (name, value) in entries(call, "the configuration")? {
            match fields::find(name).map(|field| (field, field.status)) {
                None => return Err(Error::option(name, unknown(name))),
                Some((_, Status::Metadata)) => {}
                Some((field, _)) if *value != Value::Null => drop(field.check(value)?),
                Some(_) => {}
            }
        }
        for (name, value) in entries(file, "generation_config.json")? {
            match fields::find(name).map(|field| (field, field.status)) {
                None if *value == Value::Null => {}
                None => layers.warn(
                    name,
                    format!("the file's {value} is ignored: {}", unknown(name)),
                ),
                Some((field, Status::Refused(reason))) if !field.is_neutral(value) => {
                    layers.warn(name, format!("the file's {value} has no effect: {reason}"));
                }
                Some(_) => {}
            }
        }
        Ok(layers)
    }

    fn warn(&mut self, field: &str, message: String) {
        self.warnings.push(Warning {
            field: field.into(),
            message,
        });
    }

    /// The first layer's value, if any gives one.
    fn find(&mut self, name: &'static str) -> Result<Option<(Checked, Source)>> {
        let field = honoured(name);
        if let Some(value) = given(self.call, name) {
            return Ok(Some((field.check(value)?, Source::Call)));
        }
        if let Some(value) = given(self.file, name) {
            match field.check(value) {
                Ok(checked) => return Ok(Some((checked, Source::GenerationConfig))),
                Err(error) if self.used(name) => {
                    let message = format!(
                        "generation_config.json: {error}; pass {name} to override the file"
                    );
                    return Err(Error::new(error.kind().clone(), message));
                }
                Err(error) => self.warn(name, format!("the file's value has no effect: {error}")),
            }
        }
        let model = match name {
            "bos_token_id" => self.model.bos_token_id.map(|id| vec![id]),
            "pad_token_id" => self.model.pad_token_id.map(|id| vec![id]),
            "eos_token_id" => Some(&self.model.eos_token_ids)
                .filter(|ids| !ids.is_empty())
                .cloned(),
            _ => None,
        };
        Ok(model.map(|ids| (Checked::Tokens(ids), Source::ModelConfig)))
    }

    /// Whether a value of the file's `name` would have an effect.
    fn used(&self, name: &str) -> bool {
        match name {
            "bos_token_id" | "pad_token_id" => false,
            _ => self.sampling || !SAMPLING_FIELDS.contains(&name),
        }
    }

    fn take<T>(&mut self, name: &'static str, get: Get<T>) -> Result<Setting<T>> {
        let setting = self.maybe(name, get)?;
        Ok(Setting {
            value: setting.value.ok_or_else(|| mismatch(name))?,
            source: setting.source,
        })
    }

    fn list<T>(&mut self, name: &'static str, get: Get<Vec<T>>) -> Result<Setting<Vec<T>>> {
        let setting = self.maybe(name, get)?;
        Ok(Setting {
            value: setting.value.unwrap_or_default(),
            source: setting.source,
        })
    }

    fn maybe<T>(&mut self, name: &'static str, get: Get<T>) -> Result<Setting<Option<T>>> {
        let (checked, source) = match self.find(name)? {
            Some((checked, source)) => (Some(checked), source),
            None => (default(name)?, Source::Library),
        };
        let value = checked
            .map(|checked| get(checked).ok_or_else(|| mismatch(name)))
            .transpose()?;
        Ok(Setting { value, source })
    }
}

/// Takes a checked value of the kind a field is of.
type Get<T> = fn(Checked) -> Option<T>;

fn boolean(value: Checked) -> Option<bool> {
    match value {
        Checked::Boolean(value) => Some(value),
        _ => None,
    }
}

fn integer(value: Checked) -> Option<u64> {
    match value {
        Checked::Integer(value) => Some(value),
        _ => None,
    }
}

/// An integer as a count; counts beyond what this machine can address all mean "as many as fit".
fn length(value: Checked) -> Option<usize> {
    integer(value).map(|value| usize::try_from(value).unwrap_or(usize::MAX))
}

fn number(value: Checked) -> Option<f64> {
    match value {
        Checked::Number(value) => Some(value),
        _ => None,
    }
}

fn tokens(value: Checked) -> Option<Vec<u32>> {
    match value {
        Checked::Tokens(value) => Some(value),
        _ => None,
    }
}

fn token(value: Checked) -> Option<u32> {
    tokens(value)?.first().copied()
}

fn texts(value: Checked) -> Option<Vec<String>> {
    match value {
        Checked::Texts(value) => Some(value),
        _ => None,
    }
}

fn mismatch(name: &str) -> Error {
    Error::internal(format!(
        "the table gives {name} another kind than the config"
    ))
}

fn honoured(name: &str) -> &'static Field {
    let mut honoured = FIELDS.iter();
    honoured
        .find(|field| field.name == name && matches!(field.status, Status::Honoured(_)))
        .expect("the table honours every field of the config")
}

/// The library's default of `name`; `None` where it is null.
fn default(name: &str) -> Result<Option<Checked>> {
    let field = honoured(name);
    let value: serde_json::Value =
        serde_json::from_str(field.default).map_err(|_| mismatch(name))?;
    let value = Value::from(value);
    (value != Value::Null)
        .then(|| field.check(&value))
        .transpose()
}

fn given<'a>(layer: &'a Value, name: &str) -> Option<&'a Value> {
    layer.get(name).filter(|value| **value != Value::Null)
}

fn entries<'a>(layer: &'a Value, what: &str) -> Result<&'a [(String, Value)]> {
    match layer {
        Value::Null => Ok(&[]),
        Value::Object(entries) => Ok(entries),
        other => Err(Error::option(
            "config",
            format!("{what} is {other}, allowed: an object"),
        )),
    }
}

fn unknown(name: &str) -> String {
    match fields::nearest(name) {
        Some(nearest) => format!("there is no option of this name; did you mean {nearest}?"),
        None => "there is no option of this name".into(),
    }
}
