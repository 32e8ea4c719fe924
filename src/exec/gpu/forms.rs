//! The one table: which kernels, with which overrides, serve which operation, weight format and shape.
//!
//! Where several fit, they are listed in the order of preference for a machine of the adapter's kind
//! that nobody has measured; tuning may choose another. Every operation has a form that needs no
//! optional feature of the device.

use super::{
    dispatch::{Class, Form, Overrides, quads},
    kernels,
    pipelines::Variant,
};
use crate::{
    ops::{CacheSpec, Pairing},
    tensor::DType,
};

/// Outputs of one invocation in `matmul_vector.wgsl` and `matmul_tile.wgsl`.
const THREAD_OUTPUTS: usize = 8;
/// Rows of one invocation in `matmul_tile.wgsl`.
const THREAD_ROWS: usize = 4;
/// Outputs of one workgroup in `matmul_workgroup.wgsl`.
const WORKGROUP_OUTPUTS: usize = 4;

/// An invocation for each of a row's `octets`.
pub(super) fn embed(dtype: DType, overrides: Overrides, octets: usize) -> Vec<Class> {
    Form::by_items(kernels::EMBED.of(dtype), overrides, octets).always()
}

/// A row for each invocation, or for each workgroup.
pub(super) fn rms_norm(software: bool) -> Vec<Class> {
    let thread = Form::by_items(&kernels::RMS_NORM, vec![], 1).with_lanes(8);
    let workgroup = Form {
        variant: Variant {
            kernel: &kernels::RMS_NORM_WORKGROUP,
            overrides: vec![("LANES", 64.0)],
        },
        rows: 1,
        groups: 1,
        lanes: 0,
    };
    vec![Class {
        from: 1,
        forms: preferred(software, thread, workgroup),
    }]
}

/// Few rows are matrix-vector products; many rows share each weight.
pub(super) fn matmul(
    software: bool,
    dtype: DType,
    outputs: usize,
    overrides: &Overrides,
) -> Vec<Class> {
    let form = |kernel, lanes: usize, rows: usize, groups| {
        let mut overrides = overrides.clone();
        overrides.push(("LANES", lanes as f64));
        Form {
            variant: Variant { kernel, overrides },
            rows,
            groups,
            lanes: 0,
        }
    };
    let vector = form(
        kernels::MATMUL_VECTOR.of(dtype),
        16,
        1,
        outputs.div_ceil(16 * THREAD_OUTPUTS),
    );
    let workgroup = form(
        kernels::MATMUL_WORKGROUP.of(dtype),
        64,
        1,
        outputs.div_ceil(WORKGROUP_OUTPUTS),
    );
    let tile = form(
        kernels::MATMUL_TILE.of(dtype),
        8,
        8 * THREAD_ROWS,
        outputs.div_ceil(THREAD_OUTPUTS),
    );
    let few = preferred(software, vector, workgroup);
    let many = std::iter::once(&tile).chain(&few).cloned().collect();
    vec![
        Class {
            from: 1,
            forms: few,
        },
        Class {
            from: THREAD_ROWS,
            forms: many,
        },
    ]
}

/// An invocation for each of a row's `items`: pairs of queries and quads of an entry.
pub(super) fn rotary_store(cache: &CacheSpec, pairing: Pairing, items: usize) -> Vec<Class> {
    let neighbours = f64::from(pairing == Pairing::Neighbours);
    let kernel = kernels::ROTARY_STORE.of(cache.dtype);
    Form::by_items(kernel, vec![("NEIGHBOURS", neighbours)], items).always()
}

/// An invocation for each four quads of a head.
pub(super) fn attention(cache: &CacheSpec, heads: usize) -> Vec<Class> {
    let items = heads * quads(cache).div_ceil(4);
    Form::by_items(kernels::ATTENTION.of(cache.dtype), vec![], items)
        .with_lanes(16)
        .always()
}

/// An invocation for each quad of a row.
pub(super) fn select_rows(quads: usize) -> Vec<Class> {
    Form::by_items(&kernels::SELECT_ROWS, vec![], quads).always()
}

/// Barriers are cheap on hardware and very slow on software adapters.
fn preferred(software: bool, without_barrier: Form, with_barrier: Form) -> Vec<Form> {
    if software {
        vec![without_barrier, with_barrier]
    } else {
        vec![with_barrier, without_barrier]
    }
}
