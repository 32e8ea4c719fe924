//! The plan of a call: every decision made before the first token, as plain data.
//!
//! A plan has no optional settings left: it lists what runs, in order, and where each value came from.
//! What the caller set and what has no effect is a warning.

mod limits;
mod warnings;

pub use limits::{Limit, StoppingRule, stopping};

use super::{
    callbacks::Functions,
    config::{GenerationConfig, ModelFacts, PlanSetting, Setting, Source, Warning},
    fields,
    processors::{self, Stage},
    selection::Selection,
    stopping::Criterion,
    tactics::Tactics,
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
    /// How sequences are run, and what is kept of them.
    pub tactics: Tactics,
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
    /// The best continuations of several sequences, each time.
    BeamSearch,
    /// Random continuations of several sequences, each time.
    BeamSample,
    /// Tokens that something cheap proposed and the model agrees to, each time.
    Assisted,
}

/// Where a part of the loop runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// On the device: chosen tokens are read back, several steps at once, or what beams may go on with.
    Device,
    /// On the host, because of this: scores are read back from the device after each step.
    Host(&'static str),
}

impl Strategy {
    /// Hugging Face's name of the mode.
    pub fn name(self) -> &'static str {
        match self {
            Self::Greedy => "greedy_search",
            Self::Sample => "sample",
            Self::BeamSearch => "beam_search",
            Self::BeamSample => "beam_sample",
            Self::Assisted => "assisted_generation",
        }
    }
}

impl Home {
    /// The name in the plan.
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Host(_) => "host",
        }
    }

    /// What keeps it on the host: a field, or a few words.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Device => None,
            Self::Host(reason) => Some(reason),
        }
    }
}

impl Plan {
    /// The plan of a call with the configuration `call` on a model whose `generation_config.json` holds
    /// `file`. Draws a seed if sampling is asked for and none is given.
    pub fn new(call: &Value, file: &Value, model: &ModelFacts) -> Result<Self> {
        Self::with_functions(call, file, model, Functions::default())
    }

    /// The same with the caller's own `functions`.
    pub(super) fn with_functions(
        call: &Value,
        file: &Value,
        model: &ModelFacts,
        functions: Functions,
    ) -> Result<Self> {
        let mut config = GenerationConfig::merge(call, file, model)?;
        let mut warnings = std::mem::take(&mut config.warnings);
        warnings.extend(check_cache(&config.cache_implementation)?);
        let seed = match config.do_sample.value {
            false => None,
            true => Some(config.seed.value.map_or_else(random_seed, Ok)?),
        };
        config.seed.value = seed.or(config.seed.value);
        let beams = config.num_beams.value > 1;
        let lookup = config.prompt_lookup_num_tokens.value.is_some();
        let strategy = match (beams, seed) {
            (false, _) if lookup => Strategy::Assisted,
            (false, None) => Strategy::Greedy,
            (false, Some(_)) => Strategy::Sample,
            (true, None) => Strategy::BeamSearch,
            (true, Some(_)) => Strategy::BeamSample,
        };
        let selection = match seed {
            None => Selection::Greedy,
            Some(seed) => Selection::Multinomial { seed },
        };
        warnings.extend(warnings::ineffective(&config, model));
        Ok(Self {
            strategy,
            tactics: Tactics::new(&config, seed, model),
            processors: processors::chain(&config, model, functions),
            selection,
            stopping: stopping(&config, model, functions),
            home: Home::Host("the executor chooses no tokens"),
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

    /// Adds a warning about something that was set.
    pub(super) fn warn(&mut self, field: &str, message: String) {
        self.warnings.push(Warning {
            field: field.into(),
            message,
        });
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

/// Kinds of cache that there are not, and why. All others name what there is: pages that are reserved
/// when the model is loaded, and taken as they are needed.
const NO_CACHES: &[(&str, &str)] = &[
    ("offloaded", OFFLOADED),
    ("offloaded_static", OFFLOADED),
    ("offloaded_hybrid", OFFLOADED),
    ("offloaded_hybrid_chunked", OFFLOADED),
    (
        "quantized",
        "the type of its entries is chosen when the model is loaded, by kvCache",
    ),
];
const OFFLOADED: &str = "keys and values stay on the device";

/// Fails if the call asks for a kind of cache that there is not; a file's wish becomes a warning.
fn check_cache(cache: &Setting<Option<&'static str>>) -> Result<Option<Warning>> {
    let asked = cache.value.unwrap_or("dynamic");
    let Some((_, reason)) = NO_CACHES.iter().find(|(name, _)| *name == asked) else {
        return Ok(None);
    };
    let field = "cache_implementation";
    match cache.source {
        Source::Call => Err(Error::option(
            field,
            format!("found {asked:?}; this kind is not supported: {reason}"),
        )),
        _ => Ok(Some(Warning {
            field: field.into(),
            message: format!("the file's {asked:?} has no effect: {reason}"),
        })),
    }
}

/// A seed that JavaScript can hold, so that it can be read from the plan and given again.
pub(super) fn random_seed() -> Result<u64> {
    let random = getrandom::u64();
    let random = random.map_err(|error| Error::internal(format!("no random seed: {error}")))?;
    Ok(random & fields::LARGEST_INTEGER)
}
