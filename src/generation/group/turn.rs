//! What one round of choices reads and changes, for all groups alike.

use std::collections::VecDeque;

use super::super::{
    callbacks::{Callbacks, Seen},
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
    /// The caller's own functions.
    pub callbacks: Option<&'a dyn Callbacks>,
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

    /// The first of the caller's criteria that ends the sequence of index `sequence` with `token` after
    /// `ids`, chosen by `scores`. All are asked, as they may count.
    pub(super) async fn judge(
        &self,
        sequence: usize,
        ids: &[u32],
        token: u32,
        scores: &[f32],
    ) -> Result<Option<usize>> {
        let Some(callbacks) = self.callbacks else {
            return Ok(None);
        };
        let ids = [ids, &[token]].concat();
        let mut first = None;
        for index in 0..callbacks.functions().criteria {
            let seen = Seen {
                sequence,
                ids: &ids,
                scores,
            };
            if callbacks.stops(index, seen).await? {
                first = first.or(Some(index));
            }
        }
        Ok(first)
    }

    /// What becomes of `parent` with `token` after it, which the caller's criterion `function` may end:
    /// why it ends, if it does, and its text's reader.
    pub(super) fn extend(
        &self,
        parent: &Sequence,
        token: u32,
        function: Option<usize>,
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
            function,
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
