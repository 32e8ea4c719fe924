//! Which buffers a thread has only its part of, and when it gets the rest.
//!
//! An exchange costs a round, so it is put off until an operation reads the buffer whole, and then takes along
//! every other buffer that is to be read whole later as it is now: queries, keys and values together.

use super::formats::ROWS;
use crate::{
    ops::{BufferId, Op},
    tape::Tape,
};

/// A buffer that is divided, and how many of its columns stay together in doing so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divided {
    pub buffer: BufferId,
    pub unit: usize,
}

/// The exchanges of a tape.
#[derive(Debug, Default)]
pub struct Exchanges {
    /// For each operation, the buffers that are completed before it.
    pub before: Vec<Vec<Divided>>,
    after: Vec<Divided>,
}

/// What an operation must find in a buffer that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// All columns.
    Whole,
    /// At least those that a division by this unit gives the thread.
    Part(usize),
}

impl Exchanges {
    /// Those of a thread without others.
    pub fn none(tape: &Tape) -> Self {
        Self {
            before: vec![Vec::new(); tape.ops.len()],
            after: Vec::new(),
        }
    }

    /// How `buffer` is divided at the end, if it is.
    pub fn after(&self, buffer: BufferId) -> Option<Divided> {
        let mut after = self.after.iter().copied();
        after.find(|divided| divided.buffer == buffer)
    }

    /// The exchanges of `tape`, for heads of `head_dim`.
    pub fn new(tape: &Tape, head_dim: usize) -> Self {
        let mut units: Vec<Option<usize>> = vec![None; tape.buffers.len()];
        let mut before = Vec::new();
        for (at, op) in tape.ops.iter().enumerate() {
            let lacks = |need: &(BufferId, Need)| match (need.1, units[need.0.0]) {
                (_, None) => false,
                (Need::Part(needed), Some(unit)) => needed != unit,
                (Need::Whole, Some(_)) => true,
            };
            let mut completed = Vec::new();
            if needs(op, head_dim).iter().any(lacks) {
                let ahead = &tape.ops[at..];
                for (i, unit) in units.iter_mut().enumerate() {
                    let buffer = BufferId(i);
                    if unit.is_some_and(|unit| is_needed(buffer, unit, ahead, head_dim)) {
                        let unit = unit.take().unwrap_or(ROWS);
                        completed.push(Divided { buffer, unit });
                    }
                }
            }
            before.push(completed);
            units[op.out().0] = divides(op, &units, head_dim);
        }
        let after = units.iter().enumerate().filter_map(|(i, &unit)| {
            let buffer = BufferId(i);
            unit.map(|unit| Divided { buffer, unit })
        });
        Self {
            before,
            after: after.collect(),
        }
    }
}

/// Whether `buffer`, divided by `unit`, is read otherwise than that before it is written.
fn is_needed(buffer: BufferId, unit: usize, ops: &[Op], head_dim: usize) -> bool {
    for op in ops {
        let mut needs = needs(op, head_dim).into_iter();
        if needs.any(|(read, need)| read == buffer && need != Need::Part(unit)) {
            return true;
        }
        if op.out() == buffer {
            return false;
        }
    }
    false
}

fn needs(op: &Op, head_dim: usize) -> Vec<(BufferId, Need)> {
    let whole = |buffer: BufferId| (buffer, Need::Whole);
    let added = |adds: bool, buffer: BufferId| adds.then_some((buffer, Need::Whole));
    match op {
        Op::Embed(op) => added(op.add, op.out).into_iter().collect(),
        Op::Norm(op) => [whole(op.x)]
            .into_iter()
            .chain(added(op.add, op.out))
            .collect(),
        Op::MatMul(op) => {
            let residual = op.residual.map(|residual| (residual, Need::Part(ROWS)));
            [whole(op.x)].into_iter().chain(residual).collect()
        }
        Op::GatedMatMul(op) => vec![whole(op.x)],
        Op::Route(op) => vec![whole(op.scores)],
        Op::ShortConv(op) => vec![whole(op.x)],
        Op::Experts(op) => vec![whole(op.x), whole(op.route), (op.out, Need::Part(ROWS))],
        Op::RotaryStore(op) => vec![whole(op.q), whole(op.k), whole(op.v)],
        Op::Attention(op) => vec![(op.q, Need::Part(head_dim))],
        // Of rows that are divided it keeps parts.
        Op::SelectRows(_) => Vec::new(),
    }
}

/// By what unit the buffer that `op` writes is divided then.
fn divides(op: &Op, units: &[Option<usize>], head_dim: usize) -> Option<usize> {
    match op {
        Op::MatMul(_) | Op::GatedMatMul(_) | Op::Experts(_) => Some(ROWS),
        Op::RotaryStore(_) | Op::Attention(_) => Some(head_dim),
        Op::SelectRows(op) => units[op.x.0],
        Op::Embed(_) | Op::Norm(_) | Op::Route(_) | Op::ShortConv(_) => None,
    }
}
