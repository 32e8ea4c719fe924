//! Threads that run one tape together, each with a memory of its own.
//!
//! Every thread does the same steps in the same order. Of a matrix it holds, and of a linear layer it computes, only
//! its share of the outputs, and of attention its share of the heads; everything else is done by all. What a
//! thread lacks it gets from the others when an operation first reads it, see [`split`](super::split). Nothing is
//! added up across threads, so that results are the same, to the bit, with any number of them.

use std::ops::Range;

use bytemuck::cast_slice;

use crate::{
    error::{Error, Result},
    ops::BufferId,
};

/// A thread's line to the others. All threads make the same calls in the same order, and each is a *round* in
/// which every one waits for all.
pub trait Crew {
    /// Which of the threads this is; 0 leads.
    fn index(&self) -> usize;

    /// How many there are.
    fn count(&self) -> usize;

    /// The most words that a thread can give in one round.
    fn capacity(&self) -> usize;

    /// Gives `own` to whoever wants it, and takes the first `lens[i]` words of what thread `i` gives, for each of
    /// the others one after another.
    ///
    /// # Errors
    /// `DeviceLost` if a thread is gone. No round can follow.
    fn exchange(&self, own: &[u32], lens: &[u32], others: &mut [u32]) -> Result<()>;

    /// Gives `words` to all the others, who [`receive`](Self::receive) them.
    ///
    /// # Errors
    /// As [`exchange`](Self::exchange).
    fn post(&self, words: &[u32]) -> Result<()>;

    /// Waits, as long as it takes, for what the first thread posts.
    ///
    /// # Errors
    /// As [`exchange`](Self::exchange).
    fn receive(&self) -> Result<Vec<u32>>;
}

/// A thread without others.
pub struct Alone;

impl Crew for Alone {
    fn index(&self) -> usize {
        0
    }

    fn count(&self) -> usize {
        1
    }

    fn capacity(&self) -> usize {
        0
    }

    fn exchange(&self, _: &[u32], _: &[u32], _: &mut [u32]) -> Result<()> {
        Ok(())
    }

    fn post(&self, _: &[u32]) -> Result<()> {
        Ok(())
    }

    fn receive(&self) -> Result<Vec<u32>> {
        Err(Error::internal("a thread waits for itself"))
    }
}

/// Posts any number of words.
pub fn send(crew: &dyn Crew, words: &[u32]) -> Result<()> {
    let mut pieces = words.chunks(crew.capacity() - 1);
    let first = pieces.next().unwrap_or(&[]);
    crew.post(&[&[words.len() as u32], first].concat())?;
    pieces.try_for_each(|piece| crew.post(piece))
}

/// Waits for words that were [sent](send).
pub fn hear(crew: &dyn Crew) -> Result<Vec<u32>> {
    let mut words = crew.receive()?;
    let len = words.remove(0) as usize;
    while words.len() < len {
        words.extend(crew.receive()?);
    }
    Ok(words)
}

/// One of the equal shares of what is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Whose it is.
    pub index: usize,
    /// How many there are.
    pub count: usize,
}

impl Share {
    /// The share of the thread at this end of `crew`.
    pub fn of(crew: &dyn Crew) -> Self {
        Self {
            index: crew.index(),
            count: crew.count(),
        }
    }

    /// The same of thread `index`.
    pub fn at(self, index: usize) -> Self {
        Self { index, ..self }
    }

    /// Its part of `columns`, of which each `unit` stay together.
    pub fn columns(self, columns: usize, unit: usize) -> Range<usize> {
        let units = columns.div_ceil(unit);
        let at = |index: usize| (units * index / self.count * unit).min(columns);
        at(self.index)..at(self.index + 1)
    }

    /// The key-value heads that its share of the queries' heads attends to: with those of other threads where a
    /// group of heads is divided.
    pub fn kv_heads(self, kv_heads: usize) -> Range<usize> {
        let start = kv_heads * self.index / self.count;
        start..(kv_heads * (self.index + 1)).div_ceil(self.count)
    }

    /// Which thread's share of `rows`, of which each `unit` stay together, has `row`.
    pub fn owner(self, row: usize, rows: usize, unit: usize) -> usize {
        let has = |index: &usize| self.at(*index).columns(rows, unit).contains(&row);
        (0..self.count).find(has).unwrap_or(0)
    }
}

/// A part of a buffer: some columns of some rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub buffer: BufferId,
    pub rows: Range<usize>,
    pub columns: Range<usize>,
    /// Columns of a whole row.
    pub stride: usize,
}

impl Part {
    fn spans(&self) -> impl Iterator<Item = Range<usize>> {
        let (start, end) = (self.columns.start, self.columns.end);
        let rows = self.rows.clone();
        rows.map(move |row| row * self.stride + start..row * self.stride + end)
    }
}

/// Memory that is kept from round to round.
#[derive(Default)]
pub struct Parcels {
    own: Vec<f32>,
    others: Vec<f32>,
    piece: Vec<u32>,
    lens: Vec<usize>,
    wanted: Vec<u32>,
}

impl Parcels {
    /// Completes `buffers`: each thread gives the `parts` that it has and, if it `reads`, takes those of the others.
    /// `parts` tells what a thread has, and all threads must be told alike.
    pub fn swap(
        &mut self,
        crew: &dyn Crew,
        buffers: &mut [Vec<f32>],
        parts: impl Fn(usize) -> Vec<Part>,
        reads: bool,
    ) -> Result<()> {
        let (index, count) = (crew.index(), crew.count());
        self.own.clear();
        self.lens.clear();
        for thread in 0..count {
            let parts = parts(thread);
            let spans = parts
                .iter()
                .map(|part| part.columns.len() * part.rows.len());
            self.lens.push(spans.sum());
            if thread == index {
                for part in &parts {
                    let buffer = &buffers[part.buffer.0];
                    part.spans().for_each(|span| self.own.extend(&buffer[span]));
                }
            }
        }
        self.rounds(crew, reads)?;
        if reads {
            let mut from = &self.others[..];
            for thread in (0..count).filter(|&thread| thread != index) {
                for part in parts(thread) {
                    let buffer = &mut buffers[part.buffer.0];
                    for span in part.spans() {
                        let (values, rest) = from.split_at(span.len());
                        buffer[span].copy_from_slice(values);
                        from = rest;
                    }
                }
            }
        }
        Ok(())
    }

    /// Exchanges what all give, in as many rounds as it takes.
    fn rounds(&mut self, crew: &dyn Crew, reads: bool) -> Result<()> {
        let Self {
            own,
            others,
            piece,
            lens,
            wanted,
        } = self;
        let (index, capacity) = (crew.index(), crew.capacity());
        let most = lens.iter().copied().max().unwrap_or(0);
        let theirs = lens.iter().sum::<usize>() - lens[index];
        others.resize(if reads { theirs } else { 0 }, 0.0);
        for first in (0..most).step_by(capacity) {
            let left = |len: usize| len.saturating_sub(first).min(capacity);
            wanted.clear();
            wanted.extend(lens.iter().enumerate().map(|(thread, &len)| match reads {
                true if thread != index => left(len) as u32,
                _ => 0,
            }));
            let mine: &[u32] = cast_slice(&own[first.min(own.len())..][..left(own.len())]);
            if most <= capacity {
                return crew.exchange(mine, wanted, bytemuck::cast_slice_mut(others));
            }
            piece.resize(wanted.iter().map(|&len| len as usize).sum(), 0);
            crew.exchange(mine, wanted, piece)?;
            let (mut from, mut to) = (&piece[..], 0);
            let each = lens.iter().zip(&*wanted).enumerate();
            for (_, (&len, &wanted)) in each.filter(|(thread, _)| reads && *thread != index) {
                let (values, rest) = from.split_at(wanted as usize);
                if wanted > 0 {
                    others[to + first..][..values.len()].copy_from_slice(cast_slice(values));
                }
                to += len;
                from = rest;
            }
        }
        Ok(())
    }
}
