//! Selection: one token from processed scores.
//!
//! A row that offers no distribution (NaN, +∞, or every token removed) is an error that says so; no
//! token is ever chosen by default.

mod beams;
mod philox;
mod speculative;

pub use beams::{BeamSearch, BeamSettings, Continuation};
pub use philox::philox4x32;

use super::processors::softmax;
use crate::error::{Error, ErrorKind, Result};

/// How a token is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// The token with the greatest score; the lowest id among equal ones.
    Greedy,
    /// A draw from the softmax of the scores.
    Multinomial {
        /// Key of the random numbers; at most 2⁵³ − 1, so that JavaScript can hold it.
        seed: u64,
    },
}

/// Which draw of a call this is. Draws with different places are independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// The sequence's index in the call.
    pub sequence: u32,
    /// Tokens generated before it.
    pub step: u32,
}

impl Selection {
    /// The name in the plan.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Greedy => "greedy",
            Self::Multinomial { .. } => "multinomial",
        }
    }

    /// Chooses a token id from `scores`, one for each id.
    pub fn select(&self, scores: &[f32], draw: Draw) -> Result<u32> {
        self.choose(scores, draw, Purpose::Choice)
    }

    fn choose(&self, scores: &[f32], draw: Draw, purpose: Purpose) -> Result<u32> {
        check(scores)?;
        let best = match *self {
            Self::Greedy => argmax(scores.iter().map(|&score| f64::from(score))),
            Self::Multinomial { seed } => {
                argmax(noisy(scores.iter().copied(), seed, draw, purpose))
            }
        };
        best.ok_or_else(nothing_left)
    }

    /// Chooses a token for a draft, with other random numbers than [`select`](Self::select).
    pub(super) fn propose(&self, scores: &[f32], draw: Draw) -> Result<u32> {
        self.choose(scores, draw, Purpose::Proposal)
    }

    /// The token in place of `drafted`, which was drawn from `distribution`: it is the same where the
    /// draft may stand, and in any case a choice from `scores`, or with a `weight` below 1 from that
    /// mixture of the two.
    pub fn verify(
        &self,
        scores: &[f32],
        drafted: u32,
        distribution: &[f32],
        weight: f64,
        draw: Draw,
    ) -> Result<u32> {
        let Self::Multinomial { seed } = *self else {
            return self.select(scores, draw);
        };
        check(scores)?;
        let mut probabilities = vec![0.0; scores.len()];
        softmax(scores, &mut probabilities);
        for (p, q) in probabilities.iter_mut().zip(distribution) {
            *p = (weight * f64::from(*p) + (1.0 - weight) * f64::from(*q)) as f32;
        }
        match probabilities.iter().any(|p| *p > 0.0) {
            true => Ok(speculative::replace(
                &probabilities,
                distribution,
                drafted,
                seed,
                draw,
            )),
            false => Err(nothing_left()),
        }
    }
}

/// The scores with independent Gumbel noise: the greatest is a draw from their softmax, and the k
/// greatest are k draws from it without replacement.
fn noisy(
    scores: impl Iterator<Item = f32>,
    seed: u64,
    draw: Draw,
    purpose: Purpose,
) -> impl Iterator<Item = f64> {
    let mut noise = noise(seed, draw, purpose);
    (0..).zip(scores).map(move |(id, score)| noise(id, score))
}

/// A function of ids and their scores, which adds the noise.
///
/// `argmax(sᵢ + gᵢ)`, `gᵢ = −ln(−ln uᵢ)`, is distributed as softmax(s) (Gumbel 1954; Maddison et al.
/// 2014; for k draws Kool et al. 2019). The noise of an id depends on seed, draw, purpose and id only,
/// so neither the order of evaluation nor what was drawn before matters.
fn noise(seed: u64, draw: Draw, purpose: Purpose) -> impl FnMut(u32, f32) -> f64 {
    let mut block = (u32::MAX, [0; 4]);
    move |id, score| {
        if score == f32::NEG_INFINITY {
            return f64::NEG_INFINITY;
        }
        // One evaluation of the generator serves four neighbouring ids.
        let (group, lane) = (id / 4, id as usize % 4);
        if block.0 != group {
            block = (group, words(group, seed, draw, purpose));
        }
        f64::from(score) - (-uniform(block.1[lane]).ln()).ln()
    }
}

/// What random numbers are for. Those for different purposes are independent; 1 is the processors'.
#[derive(Debug, Clone, Copy)]
enum Purpose {
    /// Choosing a token.
    Choice = 0,
    /// Choosing a token for a draft.
    Proposal = 2,
    /// Accepting a token of a draft.
    Acceptance = 3,
    /// Choosing another token in place of one of a draft.
    Replacement = 4,
}

fn words(group: u32, seed: u64, draw: Draw, purpose: Purpose) -> [u32; 4] {
    let key = [seed as u32, (seed >> 32) as u32];
    philox4x32([group, draw.step, draw.sequence, purpose as u32], key)
}

/// A uniform number in the open interval (0, 1): 2³² equal cells, each by its middle.
pub(super) fn uniform(bits: u32) -> f64 {
    (f64::from(bits) + 0.5) / 4_294_967_296.0
}

/// The index of the greatest value above −∞; the lowest among equal ones.
fn argmax(values: impl Iterator<Item = f64>) -> Option<u32> {
    let mut best = None;
    let mut greatest = f64::NEG_INFINITY;
    for (id, value) in values.enumerate() {
        if value > greatest {
            (best, greatest) = (Some(id as u32), value);
        }
    }
    best
}

fn check(scores: &[f32]) -> Result<()> {
    let bad = |score: &f32| score.is_nan() || *score == f32::INFINITY;
    match scores.iter().position(bad) {
        None => Ok(()),
        Some(id) => Err(invalid(format!(
            "the score of token {id} is {}, allowed: finite numbers, and −∞ for removed tokens",
            scores[id]
        ))),
    }
}

/// A row that offers no token.
pub(super) fn nothing_left() -> Error {
    invalid("every token was removed: nothing is left to choose from")
}

/// A row whose scores were only seen by the device.
pub(super) fn incomparable() -> Error {
    invalid(
        "the scores of a step hold NaN or +∞, allowed: finite numbers, and −∞ for removed tokens",
    )
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidScores, message)
}
