//! What lowering produces: operations as dispatches in plain data, and the sizes shared with buffers.

use super::{pipelines::Variant, sampling::SampleBuffer};
use crate::ops::{BufferId, CacheSpec, CacheType, Rows};

/// Values for a kernel's overrides.
pub(super) type Overrides = Vec<(&'static str, f64)>;

/// Neighbouring operations of a tape, usually one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    /// Each by itself.
    pub separate: Vec<Operation>,
    /// The same result in fewer dispatches, where there is such a form.
    pub fused: Option<Fused>,
}

/// A form of several operations together.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fused {
    /// What to run instead.
    pub operations: Vec<Operation>,
    /// The most rows it takes.
    pub most: usize,
    /// Whether every row must be of a sequence of its own.
    pub alone: bool,
}

/// One operation of a tape.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Operation {
    /// What the operation has a row for.
    pub rows: Rows,
    /// What to run, by the number of rows; each class begins where the one before ends.
    pub classes: Vec<Class>,
}

/// What fits a range of row counts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Class {
    /// The least rows of this class.
    pub from: usize,
    /// What fits, the preferred first; never empty.
    pub alternatives: Vec<Alternative>,
}

/// One way to run an operation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Alternative {
    /// The stem of its main kernel.
    pub name: &'static str,
    /// What is at stake, for people: formats and sizes.
    pub about: String,
    /// Whether it may be the fastest on this adapter, so that measuring it is worth the time.
    pub promising: bool,
    /// What to run, in order.
    pub dispatches: Vec<Dispatch>,
    /// What to measure: the same, or a part of it where the whole would take long.
    pub probe: Vec<Dispatch>,
}

/// One dispatch of a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Dispatch {
    pub variant: Variant,
    /// The words of the kernel's `Params`.
    pub params: Vec<u32>,
    /// The buffer of each binding but the parameters.
    pub slots: Vec<(u32, Slot)>,
    pub grid: Grid,
}

/// A buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Slot {
    /// The step.
    Step,
    /// An activation of the tape.
    Activation(BufferId),
    /// A buffer of weights.
    Weights(usize),
    /// A layer's keys.
    Keys(usize),
    /// A layer's values.
    Values(usize),
    /// What positions left in a layer that convolves.
    Past(usize),
    /// What an operation needs between its own dispatches.
    Scratch,
    /// Activations that fused operations write together, for few rows.
    Joined,
    /// What choosing tokens needs.
    Sampling(SampleBuffer),
    /// A binding that this dispatch does not read.
    Nothing,
}

/// How many workgroups a number of rows takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Grid {
    /// An invocation for each of `items` items of a row.
    Items { items: usize, lanes: usize },
    /// `groups` workgroups for each row, or for each `rows` rows.
    Groups { groups: usize, rows: usize },
    /// As `Items`, times the parts that few rows are split into.
    Splits {
        items: usize,
        splits: usize,
        lanes: usize,
    },
    /// A workgroup for every `vectors` query vectors of a key-value head, of which a row has `shared`, times
    /// the parts that few rows are split into.
    Queries {
        kv_heads: usize,
        shared: usize,
        vectors: usize,
        splits: usize,
    },
    /// Workgroups along x share `outputs` outputs, those along y take `rows` rows each. An invocation
    /// gets from `least` to `most` outputs where that is possible; `lanes` take outputs side by side.
    Shared {
        outputs: usize,
        lanes: usize,
        rows: usize,
        least: usize,
        most: usize,
    },
}

/// Workgroups that keep the cores of a software adapter busy.
const BUSY: usize = 16;

impl Grid {
    /// Workgroups in x and y for `rows` rows, at most `limit` in each.
    pub fn workgroups(self, rows: usize, limit: u32) -> (u32, u32) {
        match self {
            Self::Items { items, lanes } => two_dimensions((rows * items).div_ceil(lanes), limit),
            Self::Groups {
                groups,
                rows: group,
            } => two_dimensions(rows.div_ceil(group) * groups, limit),
            Self::Splits {
                items,
                splits,
                lanes,
            } => {
                let splits = (splits / rows).max(1);
                two_dimensions((rows * items * splits).div_ceil(lanes), limit)
            }
            Self::Queries {
                kv_heads,
                shared,
                vectors,
                splits,
            } => {
                let sets = (rows * shared).div_ceil(vectors);
                two_dimensions(kv_heads * sets * (splits / rows).max(1), limit)
            }
            Self::Shared {
                outputs,
                lanes,
                rows: group,
                least,
                most,
            } => {
                let y = rows.div_ceil(group);
                let [fewest, enough] = [most, least].map(|strip| outputs.div_ceil(lanes * strip));
                let x = BUSY.div_ceil(y).clamp(fewest, enough);
                ((x as u32).min(limit), (y as u32).min(limit))
            }
        }
    }
}

/// `groups` workgroups, or a few more, in two dimensions of at most `limit`.
fn two_dimensions(groups: usize, limit: u32) -> (u32, u32) {
    let y = groups.div_ceil(limit as usize).max(1);
    (groups.div_ceil(y) as u32, y as u32)
}

/// Values from row to row of an activation: whole blocks of the longest format, so that rows can be read
/// by blocks of vectors. What lies past the last column stays zero.
pub(super) const fn stride(columns: usize) -> usize {
    columns.next_multiple_of(32)
}

/// Quads of one head in a cache entry.
pub(super) const fn quads(cache: &CacheSpec) -> usize {
    cache.head_dim.div_ceil(4)
}

/// Quads of an entry of a layer that convolves.
pub(super) const fn past_quads(cache: &CacheSpec) -> usize {
    cache.conv_width.div_ceil(4)
}

/// Bytes of a layer's pool of keys, or of values.
pub(super) fn pool_bytes(cache: &CacheSpec) -> u64 {
    page_bytes(cache, cache.kv_heads * quads(cache)) * cache.pages as u64
}

/// Bytes of the pool of a layer that convolves.
pub(super) fn past_bytes(cache: &CacheSpec) -> u64 {
    page_bytes(cache, past_quads(cache)) * cache.pages as u64
}

/// Bytes of a page of entries of `quads` quads.
pub(super) fn page_bytes(cache: &CacheSpec, quads: usize) -> u64 {
    let quad: u64 = match cache.dtype {
        CacheType::F32 => 16,
        CacheType::F16 => 8,
    };
    (cache.page_size * quads) as u64 * quad
}

/// The word of the step that holds the number of rows.
pub(super) const fn rows_at(rows: Rows) -> u32 {
    match rows {
        Rows::Tokens => 0,
        Rows::Outputs => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_workgroups_than_one_dimension_takes() {
        for groups in [1, 65_535, 65_536, 151_936, 262_144, 4_194_241] {
            let (x, y) = two_dimensions(groups, 65_535);
            let made = x as usize * y as usize;
            assert!(x <= 65_535 && y <= 65_535);
            assert!(
                made >= groups && made - groups < y as usize,
                "{groups}: {x} × {y}"
            );
        }
    }

    #[test]
    fn shared_outputs_keep_cores_busy_within_their_bounds() {
        let grid = Grid::Shared {
            outputs: 576,
            lanes: 1,
            rows: 16,
            least: 48,
            most: 192,
        };
        assert_eq!(grid.workgroups(1, 65_535), (12, 1));
        assert_eq!(grid.workgroups(128, 65_535), (3, 8));
        assert_eq!(grid.workgroups(128, 2), (2, 2));
    }
}
