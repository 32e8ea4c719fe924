//! A chain on one row of scores, without a model.

use super::{Context, Guidance, Scratch, Work, chain};
use crate::{
    error::{Error, ErrorKind, Result},
    generation::{
        callbacks::Functions,
        config::{GenerationConfig, ModelFacts},
        plan::random_seed,
        value::Value,
    },
};

/// What one processor of a chain did to a row of scores.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The processor's name.
    pub name: &'static str,
    /// What it was told.
    pub args: super::Args,
    /// Scores after it.
    pub scores: Vec<f32>,
    /// Tokens that are not removed after it.
    pub kept: usize,
}

/// What a row of scores belongs to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Row<'a> {
    /// Prompt and answer so far.
    pub ids: &'a [u32],
    /// How many of them are the prompt.
    pub prompt_length: usize,
    /// The tokens that end an answer, where the configuration names none.
    pub eos_token_ids: &'a [u32],
    /// Scores after the negative prompt, which guidance needs.
    pub unconditional: Option<&'a [f32]>,
}

/// Runs the chain of `config` on one row of scores, without a model: the chain that a call runs.
///
/// The last step's scores are the result; without steps, the scores are unchanged.
pub fn apply_processors(scores: &[f32], row: Row, config: &Value) -> Result<Vec<Applied>> {
    check(scores, &row)?;
    let model = ModelFacts {
        vocabulary: scores.len(),
        context_length: usize::MAX,
        eos_token_ids: row.eos_token_ids.to_vec(),
        ..ModelFacts::default()
    };
    let mut config = GenerationConfig::merge(config, &Value::Null, &model)?;
    if config.seed.value.is_none() {
        config.seed.value = Some(random_seed()?);
    }
    let stages = chain(&config, &model, Functions::default());
    if row.unconditional.is_none() && stages.iter().any(|stage| stage.name() == Guidance::NAME) {
        return invalid(
            "unconditional_scores: found none, allowed: one for each token, as guidance needs them"
                .into(),
        );
    }
    let context = Context {
        ids: row.ids,
        prompt_length: row.prompt_length,
        sequence: 0,
        unconditional: row.unconditional,
    };
    let mut scratch = Scratch::default();
    let mut scores = scores.to_vec();
    let steps = stages.into_iter().map(|stage| {
        if let Work::Processor(processor) = &stage.work {
            processor.process(&context, &mut scores, &mut scratch);
        }
        Applied {
            name: stage.name(),
            args: stage.args(),
            scores: scores.clone(),
            kept: kept(&scores),
        }
    });
    Ok(steps.collect())
}

fn check(scores: &[f32], row: &Row) -> Result<()> {
    if scores.is_empty() {
        return invalid("scores: found none, allowed: one for each token".into());
    }
    let length = row.ids.len();
    if row.prompt_length > length {
        return invalid(format!(
            "prompt_length: found {}, allowed: at most {length}, the number of input ids",
            row.prompt_length
        ));
    }
    let vocabulary = scores.len();
    if let Some(at) = row.ids.iter().position(|&id| id as usize >= vocabulary) {
        return invalid(format!(
            "input_ids[{at}]: found {}, allowed: ids below {vocabulary}, the number of scores",
            row.ids[at]
        ));
    }
    match row.unconditional.map(<[f32]>::len) {
        Some(other) if other != vocabulary => invalid(format!(
            "unconditional_scores: found {other}, allowed: {vocabulary}, the number of scores"
        )),
        _ => Ok(()),
    }
}

fn invalid<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidInput, message))
}

/// Tokens that are not removed.
fn kept(scores: &[f32]) -> usize {
    let stays = |score: &&f32| **score != f32::NEG_INFINITY;
    scores.iter().filter(stays).count()
}
