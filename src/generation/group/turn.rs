//! What one round of choices reads and changes, for all groups alike.

use std::collections::VecDeque;

use super::super::{
    candidates::Speculation,
    engine::Shared,
    output::Event,
    plan::Plan,
    sequence::Sequence,
    stats::{Timings, Usage},
    stopping::{Progress, StopReason},
    streamer::{Shown, Streamer},
    tactics::Tactics,
};
use crate::error::Result;

/// Rows of scores that the caller wants to see: by row and step.
#[derive(Default)]
pub(in crate::generation) struct Record {
    pub scores: Vec<Vec<Vec<f32>>>,
    pub logits: Vec<Vec<Vec<f32>>>,
}

/// What one round of choices reads and changes.
pub(in crate::generation) struct Turn<'a> {
    pub engine: &'a Shared,
    pub plan: &'a Plan,
    /// Seconds since the first pull.
    pub seconds: f64,
    pub usage: &'a mut Usage,
    pub timings: &'a mut Timings,
    pub speculation: &'a mut Speculation,
    pub events: &'a mut VecDeque<Event>,
}

impl Record {
    /// Adds a step of the row at place `row`.
    pub(super) fn add(
        &mut self,
        tactics: &Tactics,
        row: usize,
        scores: &[f32],
        raw: Option<&[f32]>,
    ) {
        let push = |rows: &mut Vec<Vec<Vec<f32>>>, values: &[f32]| {
            if rows.len() <= row {
                rows.resize_with(row + 1, Vec::new);
            }
            rows[row].push(values.to_vec());
        };
        if tactics.output_scores {
            push(&mut self.scores, scores);
        }
        if let Some(raw) = raw {
            push(&mut self.logits, raw);
        }
    }
}

impl Turn<'_> {
    /// Why a sequence ends, if it does.
    pub(super) fn reason(&self, progress: &Progress) -> Option<StopReason> {
        let mut rules = self.plan.stopping.iter();
        rules.find_map(|rule| rule.criterion.stop(progress))
    }

    /// What becomes of `parent` with `token` after it: why it ends, if it does, and its text's reader.
    pub(super) fn extend(
        &self,
        parent: &Sequence,
        token: u32,
    ) -> Result<(Option<StopReason>, Option<Streamer>)> {
        let is_end = self.plan.eos_token_ids().contains(&token);
        let mut streamer = parent.streamer.clone();
        let shown = match &mut streamer {
            Some(streamer) if !is_end => streamer.push(token)?,
            _ => Shown::default(),
        };
        let progress = Progress {
            token,
            new_tokens: parent.new_tokens() + 1,
            length: parent.main.length() + 1,
            stop_string: shown.stopped,
            seconds: self.seconds,
        };
        Ok((self.reason(&progress), streamer))
    }

    /// Counts tokens that are shown.
    pub(super) fn count_tokens(&mut self, tokens: usize) {
        self.usage.completion_tokens += tokens;
        self.timings
            .time_to_first_token_ms
            .get_or_insert(self.seconds * 1000.0);
    }
}
