//! The plan of a call: every decision made before the first token, as plain data.
//!
//! A plan has no optional settings left: it lists what runs, in order, and where each value came from.
//! What the caller set and what has no effect is a warning.

mod limits;
mod warnings;

pub use limits::{Limit, StoppingRule, stopping};

use super::{
    config::{GenerationConfig, ModelFacts, PlanSetting, Source, Warning},
    fields,
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
        let mut warnings = std::mem::take(&mut config.warnings);
        warnings.extend(not_yet(&config.settings())?);
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
        warnings.extend(warnings::ineffective(&config, model));
        Ok(Self {
            strategy,
            processors: processors::chain(&config, model),
            selection,
            stopping: stopping(&config, model),
            home: Home::Host,
            warnings,
            settings: config.settings(),
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
        Limit::of(&self.stopping).longest(prompt)
    }
}

/// Options that are understood and checked, and do not work yet: what is missing for each.
const NOT_YET: &[(&str, &str)] = &[
    ("num_beams", "this version has no beam search"),
    ("use_cache", "this version always keeps keys and values"),
    ("cache_implementation", "this version has one kind of cache"),
    ("token_healing", "this version does not heal tokens"),
    ("guidance_scale", "this version has no guidance"),
    (
        "num_return_sequences",
        "this version gives one answer to a prompt",
    ),
    ("output_scores", "this version returns ids and text only"),
    ("output_logits", "this version returns ids and text only"),
    ("top_logprobs", "this version returns ids and text only"),
    ("prompt_lookup_num_tokens", "this version has no drafts"),
    ("prefill_chunk_size", "this version cuts prompts by itself"),
];

/// Fails if the call asks for what does not work yet; a file's wishes become warnings.
fn not_yet(settings: &[PlanSetting]) -> Result<Vec<Warning>> {
    let mut warnings = Vec::new();
    for (name, missing) in NOT_YET {
        let Some(setting) = settings.iter().find(|setting| setting.name == *name) else {
            continue;
        };
        let neutral = fields::find(name).is_none_or(|field| field.is_neutral(&setting.value));
        match setting.source {
            _ if neutral => {}
            Source::Call => {
                let message = format!(
                    "found {}; this option is not supported: {missing}",
                    setting.value
                );
                return Err(Error::option(*name, message));
            }
            _ => warnings.push(Warning {
                field: (*name).into(),
                message: format!("the file's {} has no effect: {missing}", setting.value),
            }),
        }
    }
    Ok(warnings)
}

/// A seed that JavaScript can hold, so that it can be read from the plan and given again.
pub(super) fn random_seed() -> Result<u64> {
    let random = getrandom::u64();
    let random = random.map_err(|error| Error::internal(format!("no random seed: {error}")))?;
    Ok(random & fields::LARGEST_INTEGER)
}
