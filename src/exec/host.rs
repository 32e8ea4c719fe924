//! What the executors that work in the machine's own memory share: room for tapes, and zeros.

use std::cell::RefCell;

use super::Allocation;
use crate::{
    error::{Error, ErrorKind, Result},
    ops::BufferId,
    tape::{Step, StepLayout, Tape},
};

/// A tape and its activations, by [`BufferId`].
pub type Prepared = (Tape, RefCell<Vec<Vec<f32>>>);

/// Makes room for the activations of `tapes`, whose shapes are checked.
pub fn prepare(tapes: Vec<Tape>, allocation: &Allocation) -> Result<Vec<Prepared>> {
    let prepared = tapes.into_iter().map(|tape| {
        tape.check(&allocation.weights, &allocation.cache)?;
        let specs = tape.buffers.iter().enumerate();
        let sizes = specs.map(|(i, spec)| tape.rows(BufferId(i)) * spec.columns);
        let buffers = sizes.map(zeros).collect::<Result<Vec<_>>>()?;
        Ok((tape, RefCell::new(buffers)))
    });
    prepared.collect()
}

/// Fails if `step` does not fit `tape` and what was allocated.
pub fn check(step: &Step, tape: &Tape, allocation: &Allocation) -> Result<()> {
    let layout = StepLayout {
        rows: tape.max_rows,
        sequences: allocation.sequences,
        pages: allocation.pages_per_sequence,
    };
    step.check(tape, &layout, allocation.cache.page_size)
}

/// `len` zeros, or a typed error where memory runs out.
pub fn zeros<T: bytemuck::Zeroable + Clone>(len: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| {
        let bytes = len.saturating_mul(size_of::<T>());
        Error::new(
            ErrorKind::OutOfMemory,
            format!("no memory for {bytes} bytes: choose a smaller model or context"),
        )
    })?;
    values.resize(len, T::zeroed());
    Ok(values)
}
