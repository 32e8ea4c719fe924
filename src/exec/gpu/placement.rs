//! Where weights lie: a plan made before anything is allocated.
//!
//! Weights share a few large buffers, none above the binding limit. A weight that does not fit in one
//! buffer is split by rows into parts, each with its own place. Vectors lie one after another, and so do
//! neighbouring matrices of one format and width, their quants together and their scales together: a
//! dispatch can then take the rows of several as those of one. The layout within a part is that of
//! [`crate::tensor::repack`]; vectors (weights of one row) are kept as F32 whatever the file holds, so
//! that norms and biases need no kernel for each format.

use crate::{
    error::{Error, Result},
    tensor::{DType, WeightSpec, packed_len},
};

/// Buffers to make and what lies in them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// The size of each buffer in bytes.
    pub buffers: Vec<u64>,
    /// The place of each weight, by `WeightId`.
    pub weights: Vec<Placed>,
}

/// A weight and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// How it is stored on the device.
    pub dtype: DType,
    /// Values in a row.
    pub columns: usize,
    /// Rows of a part that lie side by side, vector by vector: 1, or [`ROW_STEP`].
    pub stripe: usize,
    /// The parts in the order of their rows.
    pub parts: Vec<Part>,
}

/// Consecutive rows of a weight that lie together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The first row.
    pub first: usize,
    /// How many rows.
    pub rows: usize,
    /// Where the words of `quants` are.
    pub quants: Place,
    /// Where the words of `scales` are; as `quants` for formats without scales.
    pub scales: Place,
}

/// A place in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Which buffer.
    pub buffer: usize,
    /// Where it begins, in words of 32 bits; a multiple of [`ALIGNMENT`] bytes.
    pub word: usize,
}

/// Places begin at multiples of this many bytes: two vectors of four words, an octet of F32.
pub const ALIGNMENT: u64 = 32;

/// Rows of a part are a multiple of this, except in the last part: blocks and octets of a part then
/// begin at even numbers, so that two scales share a word as they do in the whole weight.
pub const ROW_STEP: usize = 8;

impl Placement {
    /// Places `weights` in buffers of at most `limit` bytes each, a multiple of [`ALIGNMENT`].
    ///
    /// `striped`: whether invocations take neighbouring rows side by side, so that these should lie so.
    pub fn plan(weights: &[WeightSpec], limit: u64, striped: bool) -> Result<Self> {
        if let Some(empty) = weights.iter().find(|spec| spec.rows * spec.columns == 0) {
            return Err(Error::weights(&empty.name, "found a tensor without values"));
        }
        let mut buffers = Buffers {
            striped,
            used: Vec::new(),
        };
        let mut placed = vec![None; weights.len()];
        let all = || weights.iter().enumerate();
        for (at, spec) in all().filter(|(_, spec)| spec.rows == 1) {
            placed[at] = Some(buffers.place(spec, limit)?);
        }
        let matrices: Vec<_> = all().filter(|(_, spec)| spec.rows > 1).collect();
        for alike in matrices.chunk_by(|(_, a), (_, b)| follows(a, b)) {
            let mut rest = alike;
            while let [(first, spec), ..] = rest {
                let fit = (1..=rest.len())
                    .rev()
                    .find(|&n| buffers.fits(&rest[..n], limit));
                let count = fit.unwrap_or(1);
                if count > 1 {
                    buffers.place_together(&rest[..count], limit, &mut placed);
                } else {
                    placed[*first] = Some(buffers.place(spec, limit)?);
                }
                rest = &rest[count..];
            }
        }
        Ok(Self {
            weights: placed.into_iter().collect::<Option<_>>().ok_or_else(|| {
                Error::internal(format!("not all of {} weights have a place", weights.len()))
            })?,
            buffers: buffers.used,
        })
    }
}

/// Whether the rows of `b` may be read as if they came after those of `a`.
fn follows(a: &WeightSpec, b: &WeightSpec) -> bool {
    (a.dtype, a.columns) == (b.dtype, b.columns) && a.rows.is_multiple_of(ROW_STEP)
}

/// The bytes used of each buffer.
struct Buffers {
    striped: bool,
    used: Vec<u64>,
}

impl Buffers {
    /// Rows of this weight that lie side by side. F32 stays as it is, because tables of angles are F32 and
    /// are read by other kernels than those of matrices.
    fn stripe(&self, dtype: DType, columns: usize) -> usize {
        match self.striped && dtype != DType::F32 && columns.is_multiple_of(32) {
            true => ROW_STEP,
            false => 1,
        }
    }

    /// Bytes of quants and scales of these rows, filled up to whole stripes and the alignment.
    fn sizes(&self, dtype: DType, rows: usize, columns: usize) -> (u64, u64) {
        let rows = rows.next_multiple_of(self.stripe(dtype, columns));
        let (quants, scales) = packed_len(dtype, rows * columns / dtype.block_len());
        let bytes = |words: usize| (words as u64 * 4).next_multiple_of(ALIGNMENT);
        (bytes(quants), bytes(scales))
    }

    /// Whether quants of all `matrices` fit in one buffer, and so their scales.
    fn fits(&self, matrices: &[(usize, &WeightSpec)], limit: u64) -> bool {
        let sizes = matrices
            .iter()
            .map(|(_, m)| self.sizes(m.dtype, m.rows, m.columns));
        let (quants, scales) = sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
        quants.max(scales) <= limit
    }

    fn place_together(
        &mut self,
        matrices: &[(usize, &WeightSpec)],
        limit: u64,
        placed: &mut [Option<Placed>],
    ) {
        let each: Vec<_> = matrices
            .iter()
            .map(|(_, m)| self.sizes(m.dtype, m.rows, m.columns))
            .collect();
        let mut quants = self.reserve(each.iter().map(|size| size.0).sum(), limit);
        let mut scales = match each.iter().map(|size| size.1).sum() {
            0 => quants,
            bytes => self.reserve(bytes, limit),
        };
        for ((at, spec), size) in matrices.iter().zip(each) {
            let own_scales = if size.1 == 0 { quants } else { scales };
            placed[*at] = Some(Placed {
                dtype: spec.dtype,
                columns: spec.columns,
                stripe: self.stripe(spec.dtype, spec.columns),
                parts: vec![Part {
                    first: 0,
                    rows: spec.rows,
                    quants,
                    scales: own_scales,
                }],
            });
            quants.word += (size.0 / 4) as usize;
            scales.word += (size.1 / 4) as usize;
        }
    }

    fn place(&mut self, spec: &WeightSpec, limit: u64) -> Result<Placed> {
        let dtype = if spec.rows == 1 {
            DType::F32
        } else {
            spec.dtype
        };
        let (quants, scales) = self.sizes(dtype, ROW_STEP, spec.columns);
        let most = (limit / quants.max(scales)) as usize * ROW_STEP;
        let fits_whole = {
            let (quants, scales) = self.sizes(dtype, spec.rows, spec.columns);
            quants.max(scales) <= limit
        };
        if !fits_whole && most == 0 {
            return Err(Error::unsupported(format!(
                "{}: {ROW_STEP} rows of {} values do not fit the device's binding limit of {limit} bytes",
                spec.name, spec.columns
            )));
        }
        let most = if fits_whole { spec.rows } else { most };
        let mut parts = Vec::new();
        for first in (0..spec.rows).step_by(most.max(1)) {
            let rows = most.min(spec.rows - first);
            let (quants, scales) = self.sizes(dtype, rows, spec.columns);
            let quants = self.reserve(quants, limit);
            let scales = if scales == 0 {
                quants
            } else {
                self.reserve(scales, limit)
            };
            parts.push(Part {
                first,
                rows,
                quants,
                scales,
            });
        }
        Ok(Placed {
            dtype,
            columns: spec.columns,
            stripe: self.stripe(dtype, spec.columns),
            parts,
        })
    }

    /// The first buffer with room, or a new one.
    fn reserve(&mut self, bytes: u64, limit: u64) -> Place {
        let open = self.used.iter().position(|&used| used + bytes <= limit);
        let buffer = open.unwrap_or_else(|| {
            self.used.push(0);
            self.used.len() - 1
        });
        let word = (self.used[buffer] / 4) as usize;
        self.used[buffer] += bytes;
        Place { buffer, word }
    }
}

impl Placed {
    /// Format and size, for people.
    pub fn shape(&self) -> String {
        let (rows, columns) = (self.rows(), self.columns);
        format!("{} matrices of {rows} × {columns}", self.dtype.name())
    }

    /// Rows in all.
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.rows).sum()
    }

    /// Where the only part begins; vectors and tables have one.
    pub fn only_place(&self, name: &str) -> Result<Place> {
        match &*self.parts {
            [part] => Ok(part.quants),
            parts => Err(Error::unsupported(format!(
                "{name}: a table of {} parts does not fit the device's binding limit",
                parts.len()
            ))),
        }
    }
}
