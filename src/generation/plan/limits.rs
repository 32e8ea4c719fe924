//! What ends a sequence, from the configuration.

use super::super::{
    callbacks::Functions,
    config::{GenerationConfig, ModelFacts, Source},
    stopping::Criterion,
};

/// A criterion and the layer that asked for it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoppingRule {
    /// The criterion.
    pub criterion: Criterion,
    /// Where its value came from.
    pub source: Source,
}

/// The criteria in order: natural ends before limits, so that they name the reason.
pub fn stopping(
    config: &GenerationConfig,
    model: &ModelFacts,
    functions: Functions,
) -> Vec<StoppingRule> {
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
    for index in 0..functions.criteria {
        push(Criterion::Function(index), Source::Call);
    }
    rules
}

/// How long a sequence may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Tokens of the answer.
    pub new_tokens: usize,
    /// Tokens of prompt and answer.
    pub length: usize,
}

impl Limit {
    /// The limit that `rules` set together.
    pub fn of(rules: &[StoppingRule]) -> Self {
        let none = Self {
            new_tokens: usize::MAX,
            length: usize::MAX,
        };
        rules.iter().fold(none, |limit, rule| match rule.criterion {
            Criterion::MaxNewTokens(count) => Self {
                new_tokens: limit.new_tokens.min(count),
                ..limit
            },
            Criterion::MaxLength(count) | Criterion::Context(count) => Self {
                length: limit.length.min(count),
                ..limit
            },
            _ => limit,
        })
    }

    /// The most tokens of prompt and answer, for a prompt of `prompt` tokens.
    pub fn longest(self, prompt: usize) -> usize {
        prompt.saturating_add(self.new_tokens).min(self.length)
    }
}
