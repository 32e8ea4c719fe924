//! Candidates: tokens that something cheap proposes, so that one forward pass of the model can verify
//! several of them. Without sampling, what is generated stays what the model alone would generate; with it,
//! answers stay distributed as the model's, unless an ensemble weight mixes the assistant's in.
//!
//! [`lookup`] copies what followed in the text before; [`assistant`] asks a smaller model, whose
//! tokenizer may be another ([`translate`]). How much is proposed adapts to what was accepted
//! ([`schedule`]). Source: `candidate_generator.py` of Hugging Face transformers 5.24.

mod assistant;
mod lookup;
mod schedule;
mod translate;

pub(super) use self::assistant::Assistant;
pub use self::{
    lookup::LookupSettings,
    schedule::{AssistantSettings, Schedule},
};

use super::{
    plan::Plan,
    processors::{Context, Scratch, Work},
};
use crate::error::Result;

/// Tokens that are proposed to follow.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub tokens: Vec<u32>,
    /// For each token the probabilities it was drawn by; empty where tokens were not drawn.
    pub distributions: Vec<Vec<f32>>,
    /// The model's weight against these probabilities in what is accepted; 1 unless given.
    pub weight: Option<f64>,
}

/// What became of drafts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Speculation {
    /// Tokens that were proposed.
    pub drafted: usize,
    /// Tokens of these that the model agreed to.
    pub accepted: usize,
}

/// Where the text goes on from.
#[derive(Clone, Copy)]
pub(super) struct Start<'a> {
    /// Prompt and answer so far.
    pub ids: &'a [u32],
    /// How many of them are the prompt.
    pub prompt_length: usize,
    /// The most tokens that may be proposed.
    pub room: usize,
}

/// Who proposes.
pub(super) enum Drafter {
    Lookup(LookupSettings),
    Assistant(Box<Assistant>),
}

impl Speculation {
    /// The share of proposed tokens that was accepted, if any was proposed.
    pub fn acceptance_rate(&self) -> Option<f64> {
        (self.drafted > 0).then(|| self.accepted as f64 / self.drafted as f64)
    }

    /// Adds a round.
    pub(super) fn add(&mut self, drafted: usize, accepted: usize) {
        self.drafted += drafted;
        self.accepted += accepted;
    }
}

impl Drafter {
    /// The name of what asks for it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Lookup(_) => "prompt_lookup_num_tokens",
            Self::Assistant(_) => "assistant_model",
        }
    }

    /// What may follow; nothing where there is no good guess.
    pub async fn draft(
        &mut self,
        start: Start<'_>,
        plan: &Plan,
        scratch: &mut Scratch,
    ) -> Result<Draft> {
        match self {
            Self::Lookup(settings) => Ok(lookup::draft(settings, start, plan, scratch)),
            Self::Assistant(assistant) => assistant.draft(start, plan, scratch).await,
        }
    }

    /// Learns that of the last draft's `drafted` tokens `accepted` were right.
    pub fn learn(&mut self, drafted: usize, accepted: usize) {
        if let Self::Assistant(assistant) = self {
            assistant.learn(drafted, accepted);
        }
    }
}

/// Runs the processors of `plan` on the scores of the token after `ids`, without the caller's functions:
/// a draft is a guess, and what they say counts when it is verified.
fn process(plan: &Plan, ids: &[u32], prompt_length: usize, scores: &mut [f32], s: &mut Scratch) {
    let context = Context {
        ids,
        prompt_length,
        ..Context::default()
    };
    for stage in &plan.processors {
        if let Work::Processor(processor) = &stage.work {
            processor.process(&context, scores, s);
        }
    }
}
