//! The plan of a call: every decision made before the first token, as plain data.
//!
//! A plan has no optional settings left: it lists what runs, in order, and where each value came from.
//! What the caller set and what has no effect is a warning.

use super::{
    config::{GenerationConfig, ModelFacts, SAMPLING_FIELDS, Source, Warning},
    processors::{self, Stage},
    selection::Selection,
    stopping::Criterion,
    value::Value,
};
use crate::error::{Error, Result};

/// What a call will do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How tokens follow one another.
    pub strategy: Strategy,
    /// Every honoured field's value, in the table's order; null where there is none.
    pub settings: Vec<PlanSetting>,
    /// What changes the scores, in order.
    pub processors: Vec<Stage>,
    /// What chooses a token.
    pub selection: Selection,
    /// What ends a sequence, in order: the first that does names the reason.
    pub stopping: Vec<StoppingRule>,
    /// Where processors, selection and criteria run.
    pub home: Home,
    /// What was set and has no effect, or less than it says.
    pub warnings: Vec<Warning>,
}

/// Hugging Face's generation modes, as far as there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The most probable token, each time.
    Greedy,
    /// A random token, each time.
    Sample,
}

/// Where a part of the loop runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// On the host: scores are read back from the device after each step.
    Host,
}

/// A field's effective value.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanSetting {
    /// The field.
    pub name: &'static str,
    /// Its value.
    pub value: Value,
    /// Where it came from.
    pub source: Source,
}

/// A criterion and the layer that asked for it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoppingRule {
    /// The criterion.
    pub criterion: Criterion,
    /// Where its value came from.
    pub source: Source,
}

impl Strategy {
    /// Hugging Face's name of the mode.
    pub fn name(self) -> &'static str {
        match self {
            Self::Greedy => "greedy_search",
            Self::Sample => "sample",
        }
    }
}

impl Home {
    /// The name in the plan.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
        }
    }
}

impl Plan {
    /// The plan of a call with the configuration `call` on a model whose `generation_config.json` holds
    /// `file`. Draws a seed if sampling is asked for and none is given.
    pub fn new(call: &Value, file: &Value, model: &ModelFacts) -> Result<Self> {
        let mut config = GenerationConfig::merge(call, file, model)?;
        check_tokens(&config, model)?;
        let strategy = match config.do_sample.value {
            false => Strategy::Greedy,
            true => Strategy::Sample,
        };
        let selection = match strategy {
            Strategy::Greedy => Selection::Greedy,
            Strategy::Sample => {
                let seed = match config.seed.value {
                    Some(seed) => seed,
                    None => random_seed()?,
                };
                config.seed.value = Some(seed);
                Selection::Multinomial { seed }
            }
        };
        let mut warnings = std::mem::take(&mut config.warnings);
        warnings.extend(ineffective(&config, model));
        Ok(Self {
            strategy,
            processors: processors::chain(&config),
            selection,
            stopping: stopping(&config, model),
            home: Home::Host,
            warnings,
            settings: settings(config),
        })
    }

    /// The effective value of a field.
    pub fn setting(&self, name: &str) -> Option<&PlanSetting> {
        self.settings.iter().find(|setting| setting.name == name)
    }

    /// This plan as a description of any call: a seed that was drawn belongs to one call only.
    pub(super) fn without_drawn_seed(mut self) -> Self {
        for setting in &mut self.settings {
            if setting.name == "seed" && setting.source == Source::Library {
                setting.value = Value::Null;
            }
        }
        self
    }

    /// The stop strings, none of them empty.
    pub fn stop_strings(&self) -> &[String] {
        let found = self.stopping.iter().find_map(|rule| match &rule.criterion {
            Criterion::StopStrings(texts) => Some(texts.as_slice()),
            _ => None,
        });
        found.unwrap_or(&[])
    }

    /// The tokens that end a sequence.
    pub fn eos_token_ids(&self) -> &[u32] {
        let found = self.stopping.iter().find_map(|rule| match &rule.criterion {
            Criterion::Eos(ids) => Some(ids.as_slice()),
            _ => None,
        });
        found.unwrap_or(&[])
    }

    /// The most tokens that prompt and answer may have together, for a prompt of `prompt` tokens.
    pub fn longest(&self, prompt: usize) -> usize {
        let limits = self.stopping.iter().map(|rule| match rule.criterion {
            Criterion::MaxNewTokens(count) => prompt.saturating_add(count),
            Criterion::MaxLength(count) | Criterion::Context(count) => count,
            _ => usize::MAX,
        });
        limits.min().unwrap_or(usize::MAX)
    }
}

/// The criteria in order: natural ends before limits, so that they name the reason.
fn stopping(config: &GenerationConfig, model: &ModelFacts) -> Vec<StoppingRule> {
    let mut rules = Vec::new();
    let mut push = |criterion, source| rules.push(StoppingRule { criterion, source });
    let (eos, stops) = (&config.eos_token_id, &config.stop_strings);
    if !eos.value.is_empty() {
        push(Criterion::Eos(eos.value.clone()), eos.source);
    }
    if !stops.value.is_empty() {
        push(Criterion::StopStrings(stops.value.clone()), stops.source);
    }
    match (config.max_new_tokens.value, &config.max_length) {
        (Some(count), _) => push(Criterion::MaxNewTokens(count), config.max_new_tokens.source),
        // The library's default of max_length counts new tokens only.
        (None, limit) if limit.source == Source::Library => {
            push(Criterion::MaxNewTokens(limit.value), limit.source);
        }
        (None, limit) => push(Criterion::MaxLength(limit.value), limit.source),
    }
    push(
        Criterion::Context(model.context_length),
        Source::ModelConfig,
    );
    if let Some(seconds) = config.max_time.value {
        push(Criterion::MaxTime(seconds), config.max_time.source);
    }
    rules
}

/// Fails if the call names a token that the model does not have.
fn check_tokens(config: &GenerationConfig, model: &ModelFacts) -> Result<()> {
    let (bos, pad) = (&config.bos_token_id, &config.pad_token_id);
    let named = [
        (
            "eos_token_id",
            config.eos_token_id.source,
            config.eos_token_id.value.as_slice(),
        ),
        ("bos_token_id", bos.source, bos.value.as_slice()),
        ("pad_token_id", pad.source, pad.value.as_slice()),
    ];
    for (name, source, ids) in named {
        let outside = ids.iter().find(|&&id| id as usize >= model.vocabulary);
        if let (Source::Call, Some(id)) = (source, outside) {
            let message = format!(
                "found {id}, allowed: ids below {}, the size of the vocabulary",
                model.vocabulary
            );
            return Err(Error::option(name, message));
        }
    }
    Ok(())
}

/// Warnings about what the call set and what has no effect. A file's settings are silent: it was
/// written for every call.
fn ineffective(config: &GenerationConfig, model: &ModelFacts) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |field: &str, message: String| {
        warnings.push(Warning {
            field: field.into(),
            message,
        });
    };
    let sampling = [
        (config.temperature.source, config.temperature.value != 1.0),
        (config.top_k.source, config.top_k.value != 50),
        (config.top_p.source, config.top_p.value != 1.0),
        (config.min_p.source, true),
        (config.seed.source, true),
    ];
    for (field, (source, effect)) in SAMPLING_FIELDS.into_iter().zip(sampling) {
        if !config.do_sample.value && source == Source::Call && effect {
            warn(field, "it has no effect, because do_sample is false".into());
        }
    }
    if config.max_length.source == Source::Call && config.max_new_tokens.value.is_some() {
        let source = config.max_new_tokens.source.name();
        warn(
            "max_length",
            format!("it has no effect, because max_new_tokens is set ({source})"),
        );
    }
    if config.max_length.source == Source::Call && config.max_length.value > model.context_length {
        let context = model.context_length;
        warn(
            "max_length",
            format!("the context ends the answer at {context} tokens"),
        );
    }
    if config.pad_token_id.source == Source::Call {
        warn(
            "pad_token_id",
            "it has no effect: sequences are returned at their own lengths".into(),
        );
    }
    warnings
}

/// Every honoured field with its effective value.
fn settings(config: GenerationConfig) -> Vec<PlanSetting> {
    let ids = |ids: &[u32]| Value::List(ids.iter().map(|&id| Value::Number(id.into())).collect());
    let number = |number: Option<f64>| number.map_or(Value::Null, Value::Number);
    let count = |count: Option<usize>| number(count.map(|count| count as f64));
    let texts = config.stop_strings.value.into_iter().map(Value::Text);
    let rows = [
        (
            "max_length",
            count(Some(config.max_length.value)),
            config.max_length.source,
        ),
        (
            "max_new_tokens",
            count(config.max_new_tokens.value),
            config.max_new_tokens.source,
        ),
        (
            "max_time",
            number(config.max_time.value),
            config.max_time.source,
        ),
        (
            "stop_strings",
            Value::List(texts.collect()),
            config.stop_strings.source,
        ),
        (
            "do_sample",
            Value::Boolean(config.do_sample.value),
            config.do_sample.source,
        ),
        (
            "temperature",
            Value::Number(config.temperature.value),
            config.temperature.source,
        ),
        (
            "top_k",
            count(Some(config.top_k.value)),
            config.top_k.source,
        ),
        (
            "top_p",
            Value::Number(config.top_p.value),
            config.top_p.source,
        ),
        ("min_p", number(config.min_p.value), config.min_p.source),
        (
            "repetition_penalty",
            Value::Number(config.repetition_penalty.value),
            config.repetition_penalty.source,
        ),
        (
            "seed",
            number(config.seed.value.map(|seed| seed as f64)),
            config.seed.source,
        ),
        (
            "pad_token_id",
            number(config.pad_token_id.value.map(f64::from)),
            config.pad_token_id.source,
        ),
        (
            "bos_token_id",
            number(config.bos_token_id.value.map(f64::from)),
            config.bos_token_id.source,
        ),
        (
            "eos_token_id",
            ids(&config.eos_token_id.value),
            config.eos_token_id.source,
        ),
    ];
    let settings = rows.into_iter().map(|(name, value, source)| PlanSetting {
        name,
        value,
        source,
    });
    settings.collect()
}

/// A seed that JavaScript can hold, so that it can be read from the plan and given again.
fn random_seed() -> Result<u64> {
    let random = getrandom::u64();
    let random = random.map_err(|error| Error::internal(format!("no random seed: {error}")))?;
    Ok(random & super::fields::LARGEST_INTEGER)
}
