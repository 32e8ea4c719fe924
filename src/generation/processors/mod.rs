//! Processors: each changes the scores of the next token; a chain of them runs in a fixed order.
//!
//! A token is *removed* by the score −∞. Order and arithmetic are those of Hugging Face transformers
//! 5.24 (`_get_logits_processor`, `logits_process.py`): scores are f32, NaN and infinities pass
//! through, and whether anything is left to choose is for [`selection`](super::selection) to judge.

mod min_p;
mod repetition_penalty;
mod softmax;
mod temperature;
mod top_k;
mod top_p;

use std::{fmt, rc::Rc};

pub use min_p::MinP;
pub use repetition_penalty::RepetitionPenalty;
pub(super) use softmax::softmax;
pub use temperature::Temperature;
pub use top_k::TopK;
pub use top_p::TopP;

use super::{
    config::{GenerationConfig, Source},
    value::Value,
};
use crate::error::{Error, ErrorKind, Result};

/// Changes the scores of the next token of one sequence.
pub trait Processor: fmt::Debug {
    /// The name in the plan: the field that asks for it.
    fn name(&self) -> &'static str;

    /// What it was told, by the names of the fields.
    fn args(&self) -> Vec<(&'static str, f64)>;

    /// Changes `scores`, one for each id of the model's vocabulary.
    fn process(&self, context: &Context, scores: &mut [f32], scratch: &mut Scratch);
}

/// The sequence whose next token is being scored.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Prompt and answer so far.
    pub ids: &'a [u32],
    /// How many of them are the prompt.
    pub prompt_length: usize,
}

/// Memory that processors share from step to step, so that a step allocates nothing.
#[derive(Debug, Default)]
pub struct Scratch {
    order: Vec<u32>,
    values: Vec<f32>,
    seen: Vec<u64>,
}

/// A processor and the layer that asked for it.
#[derive(Debug, Clone)]
pub struct Stage {
    /// The processor.
    pub processor: Rc<dyn Processor>,
    /// Where its value came from.
    pub source: Source,
}

/// The processors that `config` asks for, in Hugging Face's order.
pub fn chain(config: &GenerationConfig) -> Vec<Stage> {
    // Without beams the filters of a sampling chain keep at least one token.
    let keep = 1;
    let mut stages = Vec::new();
    let mut push = |processor: Rc<dyn Processor>, source| stages.push(Stage { processor, source });
    let penalty = &config.repetition_penalty;
    if penalty.value != 1.0 {
        push(
            Rc::new(RepetitionPenalty::new(penalty.value)),
            penalty.source,
        );
    }
    if config.do_sample.value {
        let (temperature, top_k) = (&config.temperature, &config.top_k);
        if temperature.value != 1.0 {
            push(
                Rc::new(Temperature::new(temperature.value)),
                temperature.source,
            );
        }
        if top_k.value != 0 {
            push(Rc::new(TopK::new(top_k.value, keep)), top_k.source);
        }
        if config.top_p.value < 1.0 {
            push(
                Rc::new(TopP::new(config.top_p.value, keep)),
                config.top_p.source,
            );
        }
        if let Some(min_p) = config.min_p.value {
            push(Rc::new(MinP::new(min_p, keep)), config.min_p.source);
        }
    }
    stages
}

/// What one processor of a chain did to a row of scores.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The processor's name.
    pub name: &'static str,
    /// What it was told.
    pub args: Vec<(&'static str, f64)>,
    /// Scores after it.
    pub scores: Vec<f32>,
    /// Tokens that are not removed after it.
    pub kept: usize,
}

/// Runs the chain of `config` on one row of scores, without a model: the chain that a call runs.
///
/// `ids` are prompt and answer so far, the first `prompt_length` of them the prompt. The last step's
/// scores are the result; without steps, the scores are unchanged.
pub fn apply_processors(
    scores: &[f32],
    ids: &[u32],
    config: &Value,
    prompt_length: usize,
) -> Result<Vec<Applied>> {
    let invalid = |message: String| Err(Error::new(ErrorKind::InvalidInput, message));
    if scores.is_empty() {
        return invalid("scores: found none, allowed: one for each token".into());
    }
    if prompt_length > ids.len() {
        return invalid(format!(
            "prompt_length: found {prompt_length}, allowed: at most {}, the number of input ids",
            ids.len()
        ));
    }
    if let Some(at) = ids.iter().position(|&id| id as usize >= scores.len()) {
        return invalid(format!(
            "input_ids[{at}]: found {}, allowed: ids below {}, the number of scores",
            ids[at],
            scores.len()
        ));
    }
    let config = GenerationConfig::merge(config, &Value::Null, &Default::default())?;
    let context = Context { ids, prompt_length };
    let mut scratch = Scratch::default();
    let mut scores = scores.to_vec();
    let steps = chain(&config).into_iter().map(|Stage { processor, .. }| {
        processor.process(&context, &mut scores, &mut scratch);
        Applied {
            name: processor.name(),
            args: processor.args(),
            scores: scores.clone(),
            kept: kept(&scores),
        }
    });
    Ok(steps.collect())
}

/// Tokens that are not removed.
fn kept(scores: &[f32]) -> usize {
    let stays = |score: &&f32| **score != f32::NEG_INFINITY;
    scores.iter().filter(stays).count()
}

/// Puts the ids of the `count` greatest values into `order`; lower ids win ties.
fn best_ids(values: &[f32], count: usize, order: &mut Vec<u32>) {
    order.clear();
    order.extend(0..values.len() as u32);
    if count < values.len() {
        order.select_nth_unstable_by(count, |&a, &b| {
            values[b as usize]
                .total_cmp(&values[a as usize])
                .then(a.cmp(&b))
        });
        order.truncate(count);
    }
}
