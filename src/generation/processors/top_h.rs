//! Top-h: of the 100 best tokens keeps the first whose entropies `−p·ln p` together stay within a share of
//! the entropy of those 100; always the best. Source: Baghaei Potraghloo et al. 2025; `TopHLogitsWarper`.

use super::{Args, Context, Processor, Scratch, best_first, softmax_in_place};

/// Keeps the best tokens within a budget of entropy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopH {
    share: f64,
}

/// Tokens that are looked at.
const BEST: usize = 100;

impl TopH {
    /// Keeps `share`, above 0 and at most 1, of the entropy.
    pub fn new(share: f64) -> Self {
        Self { share }
    }
}

impl Processor for TopH {
    fn name(&self) -> &'static str {
        "top_h"
    }

    fn args(&self) -> Args {
        vec![("top_h", self.share.into())]
    }

    fn process(&self, _: &Context, scores: &mut [f32], scratch: &mut Scratch) {
        best_first(scores, BEST, &mut scratch.order);
        scratch.values.clear();
        let best = scratch.order.iter().map(|&id| scores[id as usize]);
        scratch.values.extend(best);
        if !softmax_in_place(&mut scratch.values) {
            return;
        }
        let term = |p: f32| match p {
            p if p > 0.0 => f64::from(-p * p.ln()),
            _ => 0.0,
        };
        let entropy: f64 = scratch.values.iter().map(|&p| term(p)).sum();
        let budget = (entropy * self.share) as f32;
        let mut spent = 0.0;
        let kept = scratch.values.iter().take_while(|&&p| {
            spent += term(p);
            p > 0.0 && spent as f32 <= budget
        });
        let kept = kept.count().max(1);
        // In the order of ids, so that one pass removes the others.
        scratch.order.truncate(kept);
        scratch.order.sort_unstable();
        let mut kept = scratch.order.iter().copied().peekable();
        for (id, score) in scores.iter_mut().enumerate() {
            if kept.next_if_eq(&(id as u32)).is_none() {
                *score = f32::NEG_INFINITY;
            }
        }
    }
}
