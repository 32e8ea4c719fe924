//! What lowering produces: dispatches in plain data, and the sizes they share with the buffers.

use super::{kernels::Kernel, pipelines::Variant};
use crate::ops::{BufferId, CacheSpec, CacheType, Rows};

/// Values for a kernel's overrides.
pub(super) type Overrides = Vec<(&'static str, f64)>;

/// One dispatch of a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Dispatch {
    /// The words of the kernel's `Params`.
    pub params: Vec<u32>,
    /// The buffer of each binding but the parameters.
    pub slots: Vec<(u32, Slot)>,
    /// What the kernel has a row for.
    pub rows: Rows,
    /// What to run, by the number of rows; each class begins where the one before ends.
    pub classes: Vec<Class>,
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
    /// A binding that this dispatch does not read.
    Nothing,
}

/// The kernels that fit a range of row counts; their bindings are equal.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Class {
    /// The least rows of this class.
    pub from: usize,
    /// What fits, the preferred first.
    pub forms: Vec<Form>,
}

/// A kernel and how many workgroups it takes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Form {
    pub variant: Variant,
    /// Rows that `groups` workgroups do.
    pub rows: usize,
    /// Workgroups for each `rows` rows, or invocations where `lanes` is above zero.
    pub groups: usize,
    /// Invocations in a workgroup, where rows share workgroups.
    pub lanes: usize,
}

impl Form {
    /// An invocation for each of `items` items of a row.
    pub fn by_items(kernel: &'static Kernel, overrides: Overrides, items: usize) -> Self {
        Self {
            variant: Variant { kernel, overrides },
            rows: 1,
            groups: items,
            lanes: 0,
        }
        .with_lanes(64)
    }

    /// Workgroups of `lanes` invocations.
    pub fn with_lanes(mut self, lanes: usize) -> Self {
        self.variant.overrides.retain(|&(name, _)| name != "LANES");
        self.variant.overrides.push(("LANES", lanes as f64));
        self.lanes = lanes;
        self
    }

    /// The same for any number of rows.
    pub fn always(self) -> Vec<Class> {
        vec![Class {
            from: 1,
            forms: vec![self],
        }]
    }

    /// Workgroups for `rows` rows.
    pub fn workgroups(&self, rows: usize) -> usize {
        let groups = rows.div_ceil(self.rows) * self.groups;
        if self.lanes == 0 {
            groups
        } else {
            groups.div_ceil(self.lanes)
        }
    }
}

/// Values from row to row of an activation: whole octets, so that rows can be read by vectors.
pub(super) const fn stride(columns: usize) -> usize {
    columns.next_multiple_of(8)
}

/// Quads of one head in a cache entry.
pub(super) const fn quads(cache: &CacheSpec) -> usize {
    cache.head_dim.div_ceil(4)
}

/// Bytes of a layer's pool of keys, or of values.
pub(super) fn pool_bytes(cache: &CacheSpec) -> u64 {
    let quad: u64 = match cache.dtype {
        CacheType::F32 => 16,
        CacheType::F16 => 8,
    };
    (cache.pages * cache.page_size * cache.kv_heads * quads(cache)) as u64 * quad
}

/// Words of the step that hold the number of rows.
pub(super) const fn rows_at(rows: Rows) -> u32 {
    match rows {
        Rows::Tokens => 0,
        Rows::Outputs => 1,
    }
}
