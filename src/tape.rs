//! A forward pass as plain data: buffers and an ordered list of operations.
//!
//! A tape is built once for a model and a largest number of rows, and then replayed. What changes
//! from step to step is a [`Step`], which an executor writes into one small buffer laid out by
//! [`StepLayout`]; nothing is allocated.

use crate::{
    error::{Error, Result},
    ops::{BufferId, BufferSpec, CacheSpec, Lookup, Op, Rows, Shapes},
    tensor::WeightSpec,
};

/// A forward pass.
#[derive(Debug, Clone, PartialEq)]
pub struct Tape {
    /// Activations, by [`BufferId`].
    pub buffers: Vec<BufferSpec>,
    /// What runs, in order.
    pub ops: Vec<Op>,
    /// Outputs × vocabulary, what the pass is for.
    pub logits: BufferId,
    /// The most tokens a step may hold.
    pub max_rows: usize,
    /// The most tokens of a step whose logits may be wanted.
    pub max_outputs: usize,
}

impl Tape {
    /// Fails if any operation's shapes do not belong together.
    pub fn check(&self, weights: &[WeightSpec], cache: &CacheSpec) -> Result<()> {
        let shapes = Shapes {
            buffers: &self.buffers,
            weights,
            cache,
        };
        self.ops.iter().try_for_each(|op| op.check(&shapes))
    }

    /// For each of `weights` weights, in how many groups of rows it can be divided among threads, so that each has
    /// its share of every group: 1 for the matrix of a linear layer and for an embedding, as many as there are experts
    /// for theirs, 0 for what every thread reads whole.
    pub fn groups(&self, weights: usize) -> Vec<usize> {
        let mut groups = vec![0; weights];
        for op in &self.ops {
            match op {
                Op::Embed(op) if op.lookup == Lookup::Token => groups[op.weight.0] = 1,
                Op::MatMul(op) => groups[op.weight.0] = 1,
                Op::GatedMatMul(op) => {
                    for weight in [op.gate, op.up] {
                        groups[weight.0] = 1;
                    }
                }
                Op::Experts(op) => {
                    for weight in [op.gate, op.up, op.down] {
                        groups[weight.0] = op.experts;
                    }
                }
                _ => {}
            }
        }
        groups
    }

    /// The most rows that `buffer` may hold.
    pub fn rows(&self, buffer: BufferId) -> usize {
        match self.buffers[buffer.0].rows {
            Rows::Tokens => self.max_rows,
            Rows::Outputs => self.max_outputs,
        }
    }
}

/// The tokens of one forward pass, a row each, and where they stand.
///
/// Rows of one sequence stand in the order of their positions. A row attends to the positions of its
/// sequence up to its own, among them those that earlier rows of the same step have just stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// The token of each row.
    pub tokens: Vec<u32>,
    /// The position of each row in its sequence, from 0.
    pub positions: Vec<u32>,
    /// The sequence of each row: an index into `tables`.
    pub slots: Vec<u32>,
    /// The rows whose logits are wanted, ascending; a row may be wanted several times.
    pub outputs: Vec<u32>,
    /// For each sequence, the pages of its positions in order.
    pub tables: Vec<Vec<u32>>,
    /// For each sequence, the row of the tables of angles that its position 0 takes; 0 for sequences
    /// past the end of this list. Other than 0 only for models with several sets of frequencies.
    pub angles: Vec<u32>,
}

impl Step {
    /// Fails if the step does not fit `tape` and `layout`, or a row has no page to go to.
    pub fn check(&self, tape: &Tape, layout: &StepLayout, page_size: usize) -> Result<()> {
        let rows = self.tokens.len();
        let consistent = self.positions.len() == rows
            && self.slots.len() == rows
            && self.outputs.iter().all(|&row| (row as usize) < rows)
            && self.tables.len() <= layout.sequences
            && self.angles.len() <= layout.sequences
            && self.tables.iter().all(|table| table.len() <= layout.pages)
            && self
                .slots
                .iter()
                .zip(&self.positions)
                .all(|(&slot, &position)| {
                    self.tables
                        .get(slot as usize)
                        .is_some_and(|table| position as usize / page_size < table.len())
                });
        if consistent
            && (1..=tape.max_rows).contains(&rows)
            && self.outputs.len() <= tape.max_outputs
        {
            return Ok(());
        }
        Err(Error::internal(format!(
            "a step of {rows} rows, {} outputs and {} sequences does not fit a tape of {} rows, {} outputs and {} sequences of {} pages",
            self.outputs.len(),
            self.tables.len(),
            tape.max_rows,
            tape.max_outputs,
            layout.sequences,
            layout.pages
        )))
    }
}

/// Where the parts of a [`Step`] lie in the step buffer, in words of 32 bits.
///
/// | words | what |
/// |---|---|
/// | 0 | rows |
/// | 1 | outputs |
/// | 2, 3 | zero |
/// | [`tokens`](Self::tokens) | a token a row |
/// | [`positions`](Self::positions) | a position a row |
/// | [`slots`](Self::slots) | a sequence a row |
/// | [`outputs`](Self::outputs) | a row an output |
/// | [`angles`](Self::angles) | the first row of angles of a sequence |
/// | [`tables`](Self::tables) | `pages` page numbers a sequence |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepLayout {
    /// The most rows.
    pub rows: usize,
    /// The most sequences.
    pub sequences: usize,
    /// The most pages of a sequence.
    pub pages: usize,
}

#[expect(clippy::len_without_is_empty, reason = "it never is")]
impl StepLayout {
    /// Where tokens begin.
    pub const fn tokens(&self) -> usize {
        4
    }

    /// Where positions begin.
    pub const fn positions(&self) -> usize {
        4 + self.rows
    }

    /// Where slots begin.
    pub const fn slots(&self) -> usize {
        4 + 2 * self.rows
    }

    /// Where outputs begin.
    pub const fn outputs(&self) -> usize {
        4 + 3 * self.rows
    }

    /// Where the first rows of angles begin.
    pub const fn angles(&self) -> usize {
        4 + 4 * self.rows
    }

    /// Where page tables begin.
    pub const fn tables(&self) -> usize {
        self.angles() + self.sequences
    }

    /// Words in all.
    pub const fn len(&self) -> usize {
        self.tables() + self.sequences * self.pages
    }

    /// Writes `step` into `words`, which holds [`len`](Self::len).
    pub fn write(&self, step: &Step, words: &mut [u32]) {
        words[..4].copy_from_slice(&[step.tokens.len() as u32, step.outputs.len() as u32, 0, 0]);
        words[self.tokens()..][..step.tokens.len()].copy_from_slice(&step.tokens);
        words[self.positions()..][..step.positions.len()].copy_from_slice(&step.positions);
        words[self.slots()..][..step.slots.len()].copy_from_slice(&step.slots);
        words[self.outputs()..][..step.outputs.len()].copy_from_slice(&step.outputs);
        let angles = &mut words[self.angles()..][..self.sequences];
        angles.fill(0);
        angles[..step.angles.len()].copy_from_slice(&step.angles);
        for (slot, table) in step.tables.iter().enumerate() {
            words[self.tables() + slot * self.pages..][..table.len()].copy_from_slice(table);
        }
    }
}
