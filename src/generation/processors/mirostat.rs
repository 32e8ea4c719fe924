//! Mirostat 2.0: removes tokens more surprising than a bound μ, which follows the surprise of the tokens
//! that were chosen: `μ ← μ − η · (−log₂ p(chosen) − τ)`, from 2τ on. An extension; source: Basu et al.
//! 2021, "Mirostat: A Neural Text Decoding Algorithm that Directly Controls Perplexity".

use super::{Args, Context, Processor, Scratch, softmax_in_place};

/// Truncates so that each token surprises by about τ bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mirostat {
    /// The surprise aimed at, above 0.
    pub tau: f64,
    /// How fast the bound follows, above 0.
    pub eta: f64,
}

/// What is remembered of a sequence from one token to the next.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The bound; `None` before the first token.
    bound: Option<f64>,
    /// Tokens there were when it was used.
    length: usize,
    /// What was left to choose from, with its probabilities.
    left: Vec<(u32, f32)>,
}

impl Mirostat {
    /// The name in the plan.
    pub const NAME: &'static str = "mirostat_mode";
    /// Why it is refused where several tokens or sequences are considered at once.
    pub const ALONE: &'static str = "found 2, allowed: 0 with beams or drafts, since Mirostat follows one sequence token by token";

    /// The bound for the next token, after what became of the last one.
    fn bound(&self, memory: &Memory, ids: &[u32]) -> f64 {
        let Some(bound) = memory.bound else {
            return 2.0 * self.tau;
        };
        // Scored again without a new token, the bound stays.
        if ids.len() != memory.length + 1 {
            return bound;
        }
        let chosen = memory.left.iter().find(|(id, _)| ids.last() == Some(id));
        let surprise = chosen.map(|(_, probability)| -f64::from(*probability).log2());
        surprise.map_or(bound, |surprise| bound - self.eta * (surprise - self.tau))
    }
}

impl Processor for Mirostat {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn args(&self) -> Args {
        vec![
            ("mirostat_mode", 2.0.into()),
            ("mirostat_tau", self.tau.into()),
            ("mirostat_eta", self.eta.into()),
        ]
    }

    fn process(&self, context: &Context, scores: &mut [f32], scratch: &mut Scratch) {
        scratch.values.clear();
        scratch.values.extend_from_slice(scores);
        if !softmax_in_place(&mut scratch.values) {
            return;
        }
        if scratch.memories.len() <= context.sequence {
            scratch
                .memories
                .resize_with(context.sequence + 1, Memory::default);
        }
        let memory = &mut scratch.memories[context.sequence];
        let bound = self.bound(memory, context.ids);
        let probabilities = &scratch.values;
        let best = probabilities.iter().copied().fold(0.0, f32::max);
        let stays = |p: f32| p > 0.0 && (p == best || -f64::from(p).log2() <= bound);
        memory.left.clear();
        for (id, (score, &p)) in scores.iter_mut().zip(probabilities).enumerate() {
            match stays(p) {
                true => memory.left.push((id as u32, p)),
                false => *score = f32::NEG_INFINITY,
            }
        }
        let total: f64 = memory.left.iter().map(|(_, p)| f64::from(*p)).sum();
        for (_, p) in &mut memory.left {
            *p = (f64::from(*p) / total) as f32;
        }
        memory.bound = Some(bound);
        memory.length = context.ids.len();
    }
}
