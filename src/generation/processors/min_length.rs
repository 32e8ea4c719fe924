//! Minimum lengths: no end token before prompt and answer, or the answer alone, have so many tokens.
//! Source: `MinLengthLogitsProcessor`, `MinNewTokensLengthLogitsProcessor`.

use super::{Args, Context, Processor, Scratch, remove};
use crate::{
    exec::sample::{Change, Edit, When},
    generation::home::DeviceForm,
};

/// Keeps the answer from ending early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinLength {
    least: Least,
    eos: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Least {
    /// Tokens of prompt and answer.
    Length(usize),
    /// Tokens of the answer.
    NewTokens(usize),
}

impl MinLength {
    /// None of `eos` before prompt and answer have `length` tokens.
    pub fn length(length: usize, eos: &[u32]) -> Self {
        Self {
            least: Least::Length(length),
            eos: eos.to_vec(),
        }
    }

    /// None of `eos` before the answer has `count` tokens.
    pub fn new_tokens(count: usize, eos: &[u32]) -> Self {
        Self {
            least: Least::NewTokens(count),
            eos: eos.to_vec(),
        }
    }
}

impl Processor for MinLength {
    fn name(&self) -> &'static str {
        match self.least {
            Least::Length(_) => "min_length",
            Least::NewTokens(_) => "min_new_tokens",
        }
    }

    fn args(&self) -> Args {
        let (Least::Length(least) | Least::NewTokens(least)) = self.least;
        vec![
            (self.name(), least.into()),
            ("eos_token_id", self.eos.as_slice().into()),
        ]
    }

    fn device(&self) -> Option<DeviceForm> {
        // No sequence has as many tokens as a u32 counts.
        let short = |least: usize| u32::try_from(least).unwrap_or(u32::MAX);
        Some(DeviceForm::edit(Edit {
            change: Change::Remove(self.eos.clone()),
            when: match self.least {
                Least::Length(least) => When::LengthBelow(short(least)),
                Least::NewTokens(least) => When::NewTokensBelow(short(least)),
            },
        }))
    }

    fn process(&self, context: &Context, scores: &mut [f32], _: &mut Scratch) {
        let too_short = match self.least {
            Least::Length(least) => context.ids.len() < least,
            Least::NewTokens(least) => context.new_tokens() < least,
        };
        if too_short {
            remove(&self.eos, scores);
        }
    }
}
