//! One forward pass, after which the host chooses: from whole rows of scores, or, where beams search, from
//! what the device lists of each.

use super::{Generation, watch::watched};
use crate::{
    error::{Error, Result},
    exec::{
        Executor, TapeId,
        sample::{Pick, Row, Run},
    },
    generation::{
        batch::{Pending, pack},
        group::Group,
    },
};

/// A sequence: the place of its group in the call, and its own in the group.
pub(super) type Place = (usize, usize);

impl Generation {
    /// One forward pass over ids that are not evaluated; returns how many were of prompts.
    pub(super) async fn evaluate(&mut self, executor: &dyn Executor) -> Result<usize> {
        let mut groups = self.groups.iter_mut();
        // A pull that was dropped while the caller's functions worked has left nothing to evaluate.
        if groups.all(|group| group.tracks().all(|track| track.is_evaluated())) {
            return Ok(0);
        }
        let tape = self.pack(executor, false)?;
        if self.lister.is_some() && !self.step.outputs.is_empty() {
            return self.list(executor, tape).await;
        }
        let (profile, timings, step) = (self.profile.as_ref(), &mut self.timings, &self.step);
        let logits = watched(executor, profile, timings, || executor.forward(tape, step));
        let logits = logits.await?;
        self.timings.bytes_read += size_of_val(&*logits) as u64;
        let vocabulary = self.engine.model.vocabulary;
        let outputs = self.step.outputs.len();
        if logits.len() != outputs * vocabulary {
            let found = logits.len();
            return Err(Error::internal(format!(
                "{found} logits for {outputs} outputs of {vocabulary}"
            )));
        }
        Ok(self.store(&mut logits.chunks_exact(vocabulary)))
    }

    /// Makes a step of ids that are not evaluated. With `all`, there are outputs for all sequences that will
    /// go on from a row.
    pub(super) fn pack(&mut self, executor: &dyn Executor, all: bool) -> Result<TapeId> {
        let chunk = self.plan.tactics.prefill_chunk;
        let pending = self.groups.iter_mut().flat_map(|group| {
            let copies = if all { group.copies() } else { 1 };
            let pending = group.tracks().filter_map(move |track| track.pending(chunk));
            pending.map(move |pending| Pending { copies, ..pending })
        });
        let mut pending: Vec<Pending> = pending.collect();
        let (capacity, step, rows) = (&self.engine.capacity, &mut self.step, &mut self.rows);
        pack(capacity, &mut pending, executor, step, rows)
    }

    /// Counts the rows of the step as evaluated and keeps the logits that came out; returns how many were of
    /// prompts.
    pub(super) fn store<'a>(&mut self, logits: &mut impl Iterator<Item = &'a [f32]>) -> usize {
        let tracks = self.groups.iter_mut().flat_map(Group::tracks);
        let stored = tracks
            .zip(&self.rows)
            .map(|(track, &rows)| track.advance(rows, logits));
        stored.sum()
    }

    /// The sequences that run, in the order of their tracks.
    pub(super) fn running(&self) -> Vec<Place> {
        let groups = self.groups.iter().enumerate();
        let places = groups.flat_map(|(at, group)| group.running().map(move |place| (at, place)));
        places.collect()
    }

    /// The sequences that the step evaluates to their ends, in the order of its outputs.
    pub(super) fn completed(&self) -> Vec<Place> {
        let running = self.running().into_iter().zip(&self.rows);
        let complete =
            running.filter(|&((at, place), &rows)| self.groups[at].completes(place, rows));
        complete.map(|(place, _)| place).collect()
    }

    /// Runs the step and lets the device list what each beam may go on with.
    async fn list(&mut self, executor: &dyn Executor, tape: TapeId) -> Result<usize> {
        let Some(sampler) = &self.lister else {
            return Ok(0);
        };
        let places = self.completed();
        let rows = places
            .iter()
            .map(|&(at, place)| self.groups[at].row(place, 0));
        let rows: Vec<Row> = rows.collect();
        let run = Run {
            sampler,
            rows: &rows,
            steps: 1,
            resume: false,
        };
        let bytes = rows.len() * sampler.result_bytes();
        let (profile, timings, step) = (self.profile.as_ref(), &mut self.timings, &self.step);
        let hand_over = || executor.sample(tape, step, &run);
        let picks = watched(executor, profile, timings, hand_over);
        let picks: Vec<Pick> = picks.await?;
        self.timings.bytes_read += bytes as u64;
        let prompt_rows = self.store(&mut std::iter::empty());
        for (pick, (at, place)) in picks.into_iter().zip(places) {
            self.groups[at].list(place, pick)?;
        }
        Ok(prompt_rows)
    }
}
