//! Beam search: several sequences of a prompt go on together, and the best of all their continuations
//! are kept.
//!
//! Source: `_beam_search` of Hugging Face transformers 5.24, step for step. A continuation's score is
//! the sum of the log-probabilities of its answer. Of a step's best continuations those that end may
//! become results, if they are among the best `beams`, with their score divided by
//! `length ^ length_penalty`; the best that do not end go on. Beam sampling draws the continuations
//! without replacement from the softmax of their scores instead of taking the best.

use super::{super::config::EarlyStopping, Draw, Purpose, check, noise, nothing_left};
use crate::error::Result;

/// How beam search is done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BeamSettings {
    /// Sequences that go on together, and results that are kept.
    pub beams: usize,
    /// Continuations considered in a step: enough that `beams` are left when all end tokens are among
    /// the best, and at most as many as there are.
    pub considered: usize,
    /// Exponent of the length that scores are divided by.
    pub length_penalty: f64,
    /// When it may stop.
    pub early_stopping: EarlyStopping,
    /// The seed of beam sampling.
    pub seed: Option<u64>,
}

/// A sequence with one more token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Continuation {
    /// The beam it goes on from.
    pub beam: usize,
    /// The token.
    pub token: u32,
    /// Sum of log-probabilities.
    pub score: f32,
}

/// The search for one prompt. A result is a `T` of the caller's.
#[derive(Debug)]
pub struct BeamSearch<T> {
    settings: BeamSettings,
    /// The most tokens that an answer may have.
    longest: usize,
    /// Tokens of the answers so far.
    length: usize,
    /// Scores of the beams.
    running: Vec<f32>,
    /// Results and their scores, best first.
    finished: Vec<(f32, T)>,
    over: bool,
}

/// The score of a beam that does not exist yet: before the first step all beams are alike, and only the
/// first must count.
const ABSENT: f32 = -1e9;

impl<T> BeamSearch<T> {
    /// A search for answers of at most `longest` tokens.
    pub fn new(settings: BeamSettings, longest: usize) -> Self {
        let mut running = vec![ABSENT; settings.beams];
        running[0] = 0.0;
        Self {
            settings,
            longest,
            length: 0,
            running,
            finished: Vec::new(),
            over: false,
        }
    }

    /// How it is done.
    pub fn settings(&self) -> &BeamSettings {
        &self.settings
    }

    /// How many beams go on. Before the first step they all stand for the prompt.
    pub fn beams(&self) -> usize {
        self.running.len()
    }

    /// The continuations to consider, best first. `rows` holds each beam's log-probabilities, changed by
    /// the processors; `sequence` tells the draws of this search from those of others.
    pub fn continuations<'a>(
        &self,
        rows: impl Iterator<Item = &'a [f32]>,
        sequence: usize,
    ) -> Result<Vec<Continuation>> {
        let rows: Vec<&[f32]> = rows.collect();
        rows.iter().try_for_each(|row| check(row))?;
        let rows = rows.into_iter();
        self.rank(rows.map(|row| (0..).zip(row.iter().copied())), sequence)
    }

    /// The same from lists: of each beam the tokens that may be considered, in the order of ids.
    pub fn continuations_of<'a>(
        &self,
        lists: impl Iterator<Item = &'a [(u32, f32)]>,
        sequence: usize,
    ) -> Result<Vec<Continuation>> {
        self.rank(lists.map(|list| list.iter().copied()), sequence)
    }

    fn rank<I: Iterator<Item = (u32, f32)>>(
        &self,
        beams: impl Iterator<Item = I>,
        sequence: usize,
    ) -> Result<Vec<Continuation>> {
        let considered = self.settings.considered;
        let mut best: Vec<(f64, Continuation)> = Vec::new();
        for (beam, (tokens, running)) in beams.zip(&self.running).enumerate() {
            let draw = Draw {
                sequence: (sequence * self.settings.beams + beam) as u32,
                step: self.length as u32,
            };
            let seed = self.settings.seed;
            let mut noisy = seed.map(|seed| noise(seed, draw, Purpose::Choice));
            for (token, score) in tokens {
                let score = score + running;
                let key = match &mut noisy {
                    None => f64::from(score),
                    Some(noisy) => noisy(token, score),
                };
                let full = best.len() == considered;
                if key == f64::NEG_INFINITY || (full && best.last().is_some_and(|b| b.0 >= key)) {
                    continue;
                }
                let at = best.partition_point(|(other, _)| *other >= key);
                let continuation = Continuation { beam, token, score };
                best.insert(at, (key, continuation));
                best.truncate(considered);
            }
        }
        let mut found: Vec<Continuation> = best.into_iter().map(|(_, found)| found).collect();
        if self.settings.seed.is_some() {
            found.sort_by(|a, b| b.score.total_cmp(&a.score));
        }
        match found.is_empty() {
            true => Err(nothing_left()),
            false => Ok(found),
        }
    }

    /// Takes a step: those of the continuations for which `ends` holds end, and `result` makes a result
    /// of them; returned are the places of those that go on, the new beams.
    pub fn advance(
        &mut self,
        continuations: &[Continuation],
        ends: impl Fn(usize) -> bool,
        mut result: impl FnMut(usize) -> T,
    ) -> Vec<usize> {
        let BeamSettings {
            beams,
            early_stopping,
            ..
        } = self.settings;
        self.length += 1;
        let size = self.size(self.length);
        for (rank, found) in continuations.iter().enumerate().take(beams) {
            if ends(rank) {
                self.finished.push((found.score / size, result(rank)));
            }
        }
        self.finished.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        self.finished.truncate(beams);
        let going = (0..continuations.len()).filter(|&rank| !ends(rank));
        let going: Vec<usize> = going.take(beams).collect();
        self.running = going
            .iter()
            .map(|&rank| continuations[rank].score)
            .collect();
        let full = self.finished.len() == beams;
        let best = match (early_stopping, self.settings.length_penalty > 0.0) {
            // A longer answer divides a negative sum by more.
            (EarlyStopping::Never, true) => self.size(self.longest),
            _ => size,
        };
        let improves = match (self.running.first(), self.finished.last()) {
            (Some(running), Some((worst, _))) if full => running / best > *worst,
            (running, _) => running.is_some(),
        };
        self.over = !improves || (full && early_stopping == EarlyStopping::Yes);
        going
    }

    /// Whether no step follows.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The results so far and their scores, best first. If there are fewer than `wanted`, `beam` makes
    /// results of beams that were still going on.
    pub fn finish(self, wanted: usize, mut beam: impl FnMut(usize) -> T) -> Vec<(f32, T)> {
        let size = self.size(self.length);
        let mut finished = self.finished;
        for (at, running) in self.running.iter().enumerate() {
            if finished.len() < wanted {
                // Before the first step all beams are the same, and none of them has a token.
                let score = if self.length == 0 {
                    0.0
                } else {
                    running / size
                };
                finished.push((score, beam(at)));
            }
        }
        finished.truncate(wanted);
        finished
    }

    /// What the score of an answer of `length` tokens is divided by.
    fn size(&self, length: usize) -> f32 {
        (length.max(1) as f64).powf(self.settings.length_penalty) as f32
    }
}
