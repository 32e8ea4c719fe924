//! Speculative sampling: a token that was drawn from a draft's distribution becomes a draw from the
//! model's.
//!
//! A token x drawn from q is accepted with probability min(1, p(x) / q(x)); if it is not, another is
//! drawn from (p − q)₊, normalised. Either way the result is distributed as p. Source: Leviathan,
//! Kalman, Matias 2023, algorithm 1; `_speculative_sampling` of Hugging Face transformers.

use super::{Draw, Purpose, argmax, noisy, uniform, words};

/// The token in place of `token`: itself, if it is accepted. `p` and `q` hold the model's and the
/// draft's probabilities, of the same length.
pub(super) fn replace(p: &[f32], q: &[f32], token: u32, seed: u64, draw: Draw) -> u32 {
    let at = token as usize;
    let random = uniform(words(0, seed, draw, Purpose::Acceptance)[0]);
    if random * f64::from(q[at]) <= f64::from(p[at]) {
        return token;
    }
    let rest = p.iter().zip(q).map(|(p, q)| (p - q).max(0.0).ln());
    // A token is refused only where p is less than q, so elsewhere p is greater, but for rounding.
    argmax(noisy(rest, seed, draw, Purpose::Replacement)).unwrap_or(token)
}
