//! "Don't repeat yourself": a token that would prolong a repetition of n tokens, n at least the allowed
//! length, loses `multiplier · base^(n − allowed)`. An extension; source: the DRY sampler of
//! text-generation-webui (p-e-w, 2024).

use super::{Args, Context, Processor, Scratch};

/// Makes tokens that prolong a repetition less probable.
#[derive(Debug, Clone, PartialEq)]
pub struct Dry {
    /// What a repetition of the allowed length costs, above 0.
    pub multiplier: f64,
    /// Factor for each further token, at least 1.
    pub base: f64,
    /// Tokens of a repetition from which on it costs something, at least 1.
    pub allowed_length: usize,
    /// Tokens that are looked at; 0 looks at all.
    pub last_n: usize,
    /// Tokens that no repetition goes across.
    pub breakers: Vec<u32>,
}

/// Longer repetitions cost no more: a bound on time, and on the power.
const LONGEST: usize = 50;

impl Dry {
    /// How many tokens before `at` (it included) are also those at the end of `ids`.
    fn repeated(&self, ids: &[u32], at: usize) -> usize {
        let pairs = ids[..=at].iter().rev().zip(ids.iter().rev());
        let same = pairs.take_while(|(a, b)| a == b && !self.breakers.contains(a));
        same.take(LONGEST).count()
    }
}

impl Processor for Dry {
    fn name(&self) -> &'static str {
        "dry_multiplier"
    }

    fn args(&self) -> Args {
        vec![
            ("dry_multiplier", self.multiplier.into()),
            ("dry_base", self.base.into()),
            ("dry_allowed_length", self.allowed_length.into()),
            ("dry_penalty_last_n", self.last_n.into()),
            ("dry_sequence_breaker_ids", self.breakers.as_slice().into()),
        ]
    }

    fn process(&self, context: &Context, scores: &mut [f32], scratch: &mut Scratch) {
        let skipped = match self.last_n {
            0 => 0,
            last_n => context.ids.len().saturating_sub(last_n),
        };
        let ids = &context.ids[skipped..];
        // The longest repetition that each token would prolong.
        let lengths = &mut scratch.lengths;
        lengths.clear();
        lengths.resize(scores.len(), 0);
        for (at, &next) in ids.iter().enumerate().skip(1) {
            if (next as usize) < lengths.len() && !self.breakers.contains(&next) {
                let length = &mut lengths[next as usize];
                *length = self.repeated(ids, at - 1).max(*length as usize) as u32;
            }
        }
        for (score, &length) in scores.iter_mut().zip(lengths.iter()) {
            if length as usize >= self.allowed_length {
                let further = (length as usize - self.allowed_length) as i32;
                *score -= (self.multiplier * self.base.powi(further)).min(f32::MAX.into()) as f32;
            }
        }
    }
}
