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

/// Which rows' logits a caller wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outputs {
    /// The last id's, to choose the next token from.
    Last,
    /// Every id's.
    All,
}

/// A sequence that has ids to evaluate: those from `table.length()` on.
pub(super) struct Pending<'a> {
    /// Every id of the sequence.
    pub ids: &'a [u32],
    /// Where its keys and values go.
    pub table: &'a mut PageTable,
}

/// Fills `step` with rows of `pending` and gets their pages ready. `packed` becomes the number of rows
/// of each pending sequence, 0 for those that wait.
pub(super) fn pack(
    capacity: &Capacity,
    pending: &mut [Pending],
    outputs: Outputs,
    executor: &dyn Executor,
    step: &mut Step,
    packed: &mut Vec<usize>,
) -> Result<TapeId> {
    let waiting = |p: &Pending| p.ids.len() - p.table.length();
    // The tape that takes the most rows does the most work in one pass; of several, the smallest.
    let total = |size: &TapeSize| {
        let rows = rows(
            size,
            capacity.sequences,
            outputs,
            pending.iter().map(waiting),
        );
        rows.sum::<usize>()
    };
    let sizes = capacity.tapes.iter().enumerate();
    let best = sizes.max_by_key(|(_, size)| (total(size), usize::MAX - size.max_rows));
    let (tape, size) = best.ok_or_else(|| Error::internal("there is no tape to run"))?;
    packed.clear();
    packed.extend(rows(
        size,
        capacity.sequences,
        outputs,
        pending.iter().map(waiting),
    ));
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
            if outputs == Outputs::All || position + 1 == sequence.ids.len() {
                step.outputs.push(step.tokens.len() as u32);
            }
            step.tokens.push(sequence.ids[position]);
            step.positions.push(position as u32);
            step.slots.push(slot as u32);
        }
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
    outputs: Outputs,
    waiting: impl Iterator<Item = usize> + 'a,
) -> impl Iterator<Item = usize> + 'a {
    let (mut rows_left, mut outputs_left) = (size.max_rows, size.max_outputs);
    let mut slots_left = sequences;
    waiting.map(move |waiting| {
        let mut rows = match slots_left {
            0 => 0,
            _ => waiting.min(rows_left),
        };
        match outputs {
            Outputs::All => {
                rows = rows.min(outputs_left);
                outputs_left -= rows;
            }
            // The row that ends a sequence needs an output; without one it waits.
            Outputs::Last if rows == waiting && outputs_left == 0 => rows = rows.saturating_sub(1),
            Outputs::Last if rows == waiting && rows > 0 => outputs_left -= 1,
            Outputs::Last => {}
        }
        rows_left -= rows;
        slots_left -= usize::from(rows > 0);
        rows
    })
}

/// Empties a step and keeps its memory.
fn clear(step: &mut Step) {
    step.tokens.clear();
    step.positions.clear();
    step.slots.clear();
    step.outputs.clear();
}
