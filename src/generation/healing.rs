//! Token healing: the last token of a prompt is taken back and chosen again among the tokens that begin
//! like it, so that a text cut inside a word goes on as if it had not been cut.
//!
//! Source: `heal_tokens` of Hugging Face transformers, from Guidance. Tokens that begin like the last
//! one score 10 more, that one itself 11 more, and the best is taken. Other than there, the prompt
//! keeps its special tokens and its white space.

use crate::tokenizer::Tokenizer;

/// The last token of a prompt, taken back.
#[derive(Debug)]
pub(super) struct Healing {
    tail: u32,
    /// Tokens that begin like it, itself among them.
    extensions: Vec<u32>,
}

impl Healing {
    /// Takes back the last of `ids`, if there is anything to choose. A prompt of one token begins with
    /// `start` instead, where there is that.
    pub fn begin(ids: &mut Vec<u32>, tokenizer: &Tokenizer, start: Option<u32>) -> Option<Self> {
        let tail = *ids.last()?;
        let token = tokenizer
            .token(tail)
            .filter(|_| !tokenizer.is_special(tail))?;
        let longer = |id: &u32| {
            let other = tokenizer.token(*id);
            other.is_some_and(|other| other.starts_with(&token) && !tokenizer.is_special(*id))
        };
        let extensions: Vec<u32> = (0..tokenizer.len() as u32).filter(longer).collect();
        if extensions.len() < 2 || (ids.len() == 1 && start.is_none()) {
            return None;
        }
        ids.pop();
        if ids.is_empty() {
            ids.extend(start);
        }
        Some(Self { tail, extensions })
    }

    /// The token that was taken back.
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// The token in its place, by the logits after the tokens before it.
    pub fn choose(&self, logits: &[f32]) -> u32 {
        let biased = self.extensions.iter().map(|&id| {
            let score = logits.get(id as usize).copied();
            let bias = if id == self.tail { 11.0 } else { 10.0 };
            (id, score.unwrap_or(f32::NEG_INFINITY) + bias)
        });
        let others = (0..).zip(logits).map(|(id, score)| (id, *score));
        let best = biased
            .chain(others)
            .max_by(|(a, x), (b, y)| x.total_cmp(y).then(b.cmp(a)));
        best.map_or(self.tail, |(id, _)| id)
    }
}
