//! Packing: which rows of which sequences the next forward pass evaluates, and on which tape.
//!
//! Every sequence has ids that are not in its cache yet: a whole prompt at first, then one token at a
//! time. They are packed in the order of the sequences until the tape is full, so chunked prefill,
//! decoding and ragged batches are the same thing; nothing is padded.

use super::cache::PageTable;
use crate::{
    error::{Error, Result},
    exec::{Executor, TapeId},
    tape::Step,
};

/// The sizes of a prepared tape; its place in the list is its [`TapeId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapeSize {
    /// The most rows of a step.
    pub max_rows: usize,
    /// The most rows of a step whose logits are wanted.
    pub max_outputs: usize,
}

/// What an executor was prepared for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capacity {
    /// Tapes in the order of their ids.
    pub tapes: Vec<TapeSize>,
    /// The most sequences of a step.
    pub sequences: usize,
}

/// A sequence that has ids to evaluate: those from `table.length()` on.
pub(super) struct Pending<'a> {
    /// Every id of the sequence.
    pub ids: &'a [u32],
    /// Where its keys and values go.
    pub table: &'a mut PageTable,
    /// The position from which on logits are wanted.
    pub wanted: usize,
    /// The most ids that a step evaluates.
    pub most: usize,
    /// How many outputs a row takes whose logits are wanted: one for each sequence that goes on from it.
    pub copies: usize,
}

/// What is known of the next step of a sequence.
#[derive(Clone, Copy)]
struct Waiting {
    /// Ids that it may evaluate.
    rows: usize,
    /// How many of them need no logits.
    silent: usize,
    copies: usize,
}

impl Pending<'_> {
    fn waiting(&self) -> Waiting {
        let stored = self.table.length();
        let rows = (self.ids.len() - stored).min(self.most);
        Waiting {
            rows,
            silent: self.wanted.saturating_sub(stored).min(rows),
            copies: self.copies,
        }
    }
}

/// Fills `step` with rows of `pending` and gets their pages ready. `packed` becomes the number of rows
/// of each pending sequence, 0 for those that wait.
pub(super) fn pack(
    capacity: &Capacity,
    pending: &mut [Pending],
    executor: &dyn Executor,
    step: &mut Step,
    packed: &mut Vec<usize>,
) -> Result<TapeId> {
    // A sequence that has become long is evaluated from its beginning.
    for sequence in pending.iter_mut() {
        sequence.table.turn(sequence.ids.len());
    }
    // The tape that takes the most rows does the most work in one pass; of several, the smallest.
    let total = |size: &TapeSize| {
        let waiting = pending.iter().map(Pending::waiting);
        rows(size, capacity.sequences, waiting).sum::<usize>()
    };
    let sizes = capacity.tapes.iter().enumerate();
    let best = sizes.max_by_key(|(_, size)| (total(size), usize::MAX - size.max_rows));
    let (tape, size) = best.ok_or_else(|| Error::internal("there is no tape to run"))?;
    packed.clear();
    let waiting = pending.iter().map(Pending::waiting);
    packed.extend(rows(size, capacity.sequences, waiting));
    if packed.iter().all(|&rows| rows == 0) {
        return Err(Error::internal("no tape has a row for the next token"));
    }
    clear(step);
    let filled = pending.iter_mut().zip(packed.iter());
    for (slot, (sequence, &rows)) in filled.filter(|(_, rows)| **rows > 0).enumerate() {
        if let Some(copy) = sequence.table.prepare(rows)? {
            executor.copy_page(copy.from, copy.to)?;
        }
        let start = sequence.table.length();
        for position in start..start + rows {
            if position >= sequence.wanted {
                let row = step.tokens.len() as u32;
                step.outputs
                    .extend(std::iter::repeat_n(row, sequence.copies));
            }
            step.tokens.push(sequence.ids[position]);
            step.positions.push(position as u32);
            step.slots.push(slot as u32);
        }
        step.angles.push(sequence.table.angles());
        if step.tables.len() == slot {
            step.tables.push(Vec::new());
        }
        step.tables[slot].clear();
        step.tables[slot].extend_from_slice(sequence.table.pages());
    }
    let slots = packed.iter().filter(|rows| **rows > 0).count();
    step.tables.truncate(slots);
    Ok(TapeId(tape))
}

/// How many rows of each sequence a step on a tape of `size` takes.
fn rows<'a>(
    size: &'a TapeSize,
    sequences: usize,
    waiting: impl Iterator<Item = Waiting> + 'a,
) -> impl Iterator<Item = usize> + 'a {
    let (mut rows_left, mut outputs_left) = (size.max_rows, size.max_outputs);
    let mut slots_left = sequences;
    waiting.map(move |waiting| {
        let Waiting { silent, copies, .. } = waiting;
        // A row whose logits are wanted needs its outputs; without them it waits.
        let rows = match slots_left {
            0 => 0,
            _ => waiting
                .rows
                .min(rows_left)
                .min(silent + outputs_left / copies),
        };
        rows_left -= rows;
        outputs_left -= rows.saturating_sub(silent) * copies;
        slots_left -= usize::from(rows > 0);
        rows
    })
}

/// Empties a step and keeps its memory; tables stay to be filled again.
pub(super) fn clear(step: &mut Step) {
    step.tokens.clear();
    step.positions.clear();
    step.slots.clear();
    step.outputs.clear();
    step.angles.clear();
}
