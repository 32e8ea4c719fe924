//! The key-value cache in the order in which attention reads it.
//!
//! Inside a page each key-value head has its own place. Keys of eight positions lie side by side, value by
//! value, so that scores of eight positions come out of one vector; values lie eight by eight, position after
//! position, so that weighted sums do. Both are then *panels* of [`tile`](super::product::tiles).
//!
//! | | order inside a page |
//! |---|---|
//! | keys | head, positions / 8, value of the head, position % 8 |
//! | values | head, values of the head / 8, position, value % 8 |
//!
//! Pages of a multiple of 8 positions and heads of a multiple of 8 values take exactly what
//! [`CacheSpec::bytes`] says; others are rounded up.

use std::ops::Range;

use half::f16;

use super::{
    formats::ROWS,
    simd::{fetch, finite_halves, halves, store8},
};
use crate::{
    error::Result,
    exec::host::zeros,
    ops::{CacheSpec, CacheType},
};

/// Keys and values of one layer.
pub struct Layer {
    /// With as many heads as are held.
    spec: CacheSpec,
    /// The first head that is held.
    first: usize,
    keys: Store,
    values: Store,
}

/// Entries of a page, eight together.
#[derive(Clone, Copy)]
pub enum Entries<'a> {
    /// Numbers.
    Numbers(&'a [[f32; ROWS]]),
    /// Halves, all of them finite.
    Halves(&'a [[u8; 2 * ROWS]]),
}

/// Entries, eight together.
enum Store {
    F32(Vec<[f32; ROWS]>),
    F16 {
        octets: Vec<[u8; 2 * ROWS]>,
        /// Whether there was ever an entry that is not finite: others are turned into numbers faster.
        special: bool,
    },
}

impl Layer {
    /// Room for some heads of a layer, filled with zeros.
    pub fn new(spec: CacheSpec, held: Range<usize>) -> Result<Self> {
        let spec = CacheSpec {
            kv_heads: held.len(),
            ..spec
        };
        let heads = spec.pages * spec.kv_heads;
        Ok(Self {
            keys: Store::new(spec.dtype, heads * key_octets(&spec))?,
            values: Store::new(spec.dtype, heads * value_octets(&spec))?,
            first: held.start,
            spec,
        })
    }

    /// Stores a position's keys and values, `kv_heads × head_dim` each, of which it takes those of the heads that are
    /// held. `at` is its place in `page`.
    pub fn store(&mut self, page: usize, at: usize, keys: &[f32], values: &[f32]) {
        let spec = &self.spec;
        let each = keys
            .chunks_exact(spec.head_dim)
            .zip(values.chunks_exact(spec.head_dim))
            .skip(self.first)
            .take(spec.kv_heads);
        for (head, (keys, values)) in each.enumerate() {
            let head = page * spec.kv_heads + head;
            let first = head * key_octets(spec) + at / ROWS * spec.head_dim;
            for (i, &key) in keys.iter().enumerate() {
                self.keys.set(first + i, at % ROWS, key);
            }
            let first = head * value_octets(spec) + at;
            for (i, &value) in values.iter().enumerate() {
                let octet = first + i / ROWS * spec.page_size;
                self.values.set(octet, i % ROWS, value);
            }
        }
    }

    /// A head's keys at the first `positions` of a page: for each eight, `head_dim` octets. As numbers, in
    /// `numbers` unless they are numbers already; halves may stay what they are where they are used `once`.
    pub fn keys<'a>(
        &'a self,
        page: usize,
        head: usize,
        positions: usize,
        once: bool,
        numbers: &'a mut Vec<[f32; ROWS]>,
    ) -> Entries<'a> {
        let first = (page * self.spec.kv_heads + head - self.first) * key_octets(&self.spec);
        let count = positions.div_ceil(ROWS) * self.spec.head_dim;
        self.keys.get(first, count, once, numbers)
    }

    /// A head's values in a page, likewise: for each eight of the head's values, `page_size` octets.
    pub fn values<'a>(
        &'a self,
        page: usize,
        head: usize,
        once: bool,
        numbers: &'a mut Vec<[f32; ROWS]>,
    ) -> Entries<'a> {
        let count = value_octets(&self.spec);
        let first = (page * self.spec.kv_heads + head - self.first) * count;
        self.values.get(first, count, once, numbers)
    }

    /// Copies a page.
    pub fn copy_page(&mut self, from: usize, to: usize) {
        let heads = self.spec.kv_heads;
        self.keys.copy(from, to, heads * key_octets(&self.spec));
        self.values.copy(from, to, heads * value_octets(&self.spec));
    }
}

impl Store {
    fn new(dtype: CacheType, octets: usize) -> Result<Self> {
        Ok(match dtype {
            CacheType::F32 => Self::F32(zeros(octets)?),
            CacheType::F16 => Self::F16 {
                octets: zeros(octets)?,
                special: false,
            },
        })
    }

    fn set(&mut self, octet: usize, lane: usize, value: f32) {
        match self {
            Self::F32(octets) => octets[octet][lane] = value,
            Self::F16 { octets, special } => {
                let half = f16::from_f32(value);
                *special |= !half.is_finite();
                octets[octet][2 * lane..2 * lane + 2].copy_from_slice(&half.to_le_bytes());
            }
        }
    }

    fn get<'a>(
        &'a self,
        first: usize,
        count: usize,
        once: bool,
        numbers: &'a mut Vec<[f32; ROWS]>,
    ) -> Entries<'a> {
        match self {
            Self::F32(octets) => Entries::Numbers(&octets[first..first + count]),
            Self::F16 { octets, special } => {
                let octets = &octets[first..first + count];
                fetch(octets.as_flattened());
                if once && !special {
                    return Entries::Halves(octets);
                }
                numbers.resize(count, [0.0; ROWS]);
                for (numbers, octet) in numbers.iter_mut().zip(octets) {
                    let wide = if *special {
                        halves(octet)
                    } else {
                        finite_halves(octet)
                    };
                    store8(wide, numbers);
                }
                Entries::Numbers(numbers)
            }
        }
    }

    fn copy(&mut self, from: usize, to: usize, count: usize) {
        let (range, to) = (from * count..(from + 1) * count, to * count);
        match self {
            Self::F32(octets) => octets.copy_within(range, to),
            Self::F16 { octets, .. } => octets.copy_within(range, to),
        }
    }
}

fn key_octets(spec: &CacheSpec) -> usize {
    spec.page_size.div_ceil(ROWS) * spec.head_dim
}

fn value_octets(spec: &CacheSpec) -> usize {
    spec.head_dim.div_ceil(ROWS) * spec.page_size
}
