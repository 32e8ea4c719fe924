//! The one table: which kernels, with which overrides, serve which operation, weight format and shape.
//!
//! Where several fit, they are listed in the order of preference for a machine of the adapter's kind
//! that nobody has measured; tuning may choose another. Every operation has a form that needs no
//! optional feature of the device.

#[cfg(not(target_arch = "wasm32"))]
use super::subgroup_kernels::ATTENTION_BROADCAST;
use super::{
    dispatch::{Grid, Overrides, quads},
    kernels::{self, ATTENTION_MERGE, ByCache, Kernel},
    pipelines::Variant,
};
use crate::{ops::CacheSpec, tensor::DType};

/// What choosing depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Adapter {
    /// Whether it is a program on the CPU.
    pub software: bool,
    /// Invocations that it runs side by side.
    pub lanes: usize,
    /// Whether invocations that run side by side may exchange values, in whole subgroups of eight or more.
    pub subgroups: bool,
}

/// A form of normalisation: the stem of its kernels, whether it has barriers, and its grid.
pub(super) struct NormForm {
    pub name: &'static str,
    pub barriers: bool,
    pub variant: Variant,
    pub grid: Grid,
}

/// Normalisation of `groups` groups of a row, which are whole quads or not.
pub(super) fn norm(
    adapter: Adapter,
    groups: usize,
    whole_quads: bool,
    centred: bool,
) -> Vec<NormForm> {
    let lanes = adapter.lanes;
    let items = usize::from(!whole_quads);
    let form = |name, barriers, kernel, lanes, grid| NormForm {
        name,
        barriers,
        variant: with_lanes(kernel, vec![("CENTRED", f64::from(centred))], lanes),
        grid,
    };
    let each = Grid::Items {
        items: groups,
        lanes,
    };
    let together = Grid::Groups { groups, rows: 1 };
    let mut forms = vec![
        form("norm", false, &kernels::NORM[items], lanes, each),
        form(
            "norm_workgroup",
            true,
            &kernels::NORM_WORKGROUP[items],
            64,
            together,
        ),
    ];
    if !adapter.software {
        forms.reverse();
    }
    forms
}

/// A form of the experts' products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpertsForm {
    /// An invocation owns an item.
    Thread,
    /// A workgroup owns an item.
    Workgroup,
}

/// The forms of the experts' products, the preferred first.
pub(super) fn experts(adapter: Adapter) -> [ExpertsForm; 2] {
    match adapter.software {
        true => [ExpertsForm::Thread, ExpertsForm::Workgroup],
        false => [ExpertsForm::Workgroup, ExpertsForm::Thread],
    }
}

impl ExpertsForm {
    /// The stem of its kernels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Thread => "experts",
            Self::Workgroup => "experts_workgroup",
        }
    }

    /// Whether its kernels have barriers.
    pub const fn barriers(self) -> bool {
        matches!(self, Self::Workgroup)
    }

    /// Its kernel for a weight of `dtype` where a row has `items` items.
    pub fn kernel(
        self,
        adapter: Adapter,
        dtype: DType,
        items: usize,
        overrides: Overrides,
    ) -> (Variant, Grid) {
        let lanes = adapter.lanes;
        match self {
            Self::Thread => (
                with_lanes(kernels::EXPERTS.of(dtype), overrides, lanes),
                Grid::Items { items, lanes },
            ),
            Self::Workgroup => (
                with_lanes(kernels::EXPERTS_WORKGROUP.of(dtype), overrides, 64),
                Grid::Groups {
                    groups: items,
                    rows: 1,
                },
            ),
        }
    }
}

/// Routing.
pub(super) fn route(adapter: Adapter) -> (Variant, Grid) {
    let lanes = adapter.lanes;
    (
        with_lanes(&kernels::ROUTE, vec![], lanes),
        Grid::Items { items: 1, lanes },
    )
}

/// Parts that the positions of a lone row are split into.
pub(super) const SPLITS: usize = 16;

/// Whether heads are whole tiles of 16 values, and not more of them than kernels have room for.
const fn in_tiles(cache: &CacheSpec) -> bool {
    cache.head_dim.is_multiple_of(16) && cache.head_dim <= 128
}

/// Query heads of one key-value head that an invocation takes together, if heads are in tiles.
fn head_group(cache: &CacheSpec, heads: usize) -> Option<usize> {
    if !in_tiles(cache) {
        return None;
    }
    let shared = heads / cache.kv_heads;
    (1..=4).rev().find(|&group| shared.is_multiple_of(group))
}

/// Attention of many rows that follow one another, or `None` where the heads are not whole tiles of 16 values
/// or four positions may be on two pages.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn attention_broadcast(
    adapter: Adapter,
    cache: &CacheSpec,
    heads: usize,
) -> Option<(Variant, Grid)> {
    let group = head_group(cache, heads)?;
    if !adapter.subgroups || !cache.page_size.is_multiple_of(4) {
        return None;
    }
    let overrides = vec![
        ("GROUP", group as f64),
        ("TILES", (cache.head_dim / 16) as f64),
    ];
    let kernel = ATTENTION_BROADCAST.of(cache.dtype);
    let grid = Grid::Shared {
        outputs: heads / group,
        lanes: 1,
        rows: adapter.lanes,
        least: 1,
        most: 1,
    };
    Some((with_lanes(kernel, overrides, adapter.lanes), grid))
}

/// wgpu offers no subgroups to pages.
#[cfg(target_arch = "wasm32")]
pub(super) fn attention_broadcast(_: Adapter, _: &CacheSpec, _: usize) -> Option<(Variant, Grid)> {
    None
}

/// Attention in parts by one of `kernels`, and what joins them, or `None` where the heads are not whole tiles of 16 values.
pub(super) fn attention_split(
    adapter: Adapter,
    cache: &CacheSpec,
    heads: usize,
    kernels: &'static ByCache,
    mut overrides: Overrides,
) -> Option<[(Variant, Grid); 2]> {
    let lanes = adapter.lanes;
    let group = head_group(cache, heads)?;
    overrides.push(("GROUP", group as f64));
    overrides.push(("TILES", (cache.head_dim / 16) as f64));
    let split = (
        with_lanes(kernels.of(cache.dtype), overrides, lanes),
        Grid::Splits {
            items: heads / group,
            splits: SPLITS,
            lanes,
        },
    );
    let merge = by_items(&ATTENTION_MERGE, vec![], heads * quads(cache));
    Some([split, merge])
}

/// Query vectors of one workgroup in `lib/attention_shared.wgsl`.
const QUERIES: usize = 8;

/// As [`attention_split`], by workgroups: for real GPUs.
pub(super) fn attention_workgroup(
    cache: &CacheSpec,
    heads: usize,
    kernels: &'static ByCache,
    overrides: Overrides,
) -> Option<[(Variant, Grid); 2]> {
    if !in_tiles(cache) {
        return None;
    }
    let kernel = kernels.of(cache.dtype);
    let grid = Grid::Queries {
        kv_heads: cache.kv_heads,
        shared: heads / cache.kv_heads,
        vectors: QUERIES,
        splits: SPLITS,
    };
    let merge = by_items(&ATTENTION_MERGE, vec![], heads * quads(cache));
    Some([(Variant { kernel, overrides }, grid), merge])
}

/// Attention for heads of any size.
pub(super) fn attention(adapter: Adapter, cache: &CacheSpec, heads: usize) -> (Variant, Grid) {
    let lanes = adapter.lanes;
    let items = heads * quads(cache).div_ceil(4);
    let kernel = kernels::ATTENTION.of(cache.dtype);
    (
        with_lanes(kernel, vec![], lanes),
        Grid::Items { items, lanes },
    )
}

/// Slices that the tokens of a row are cut into while one is chosen: enough for every core, few enough that
/// their results are soon joined.
pub(super) const fn sample_slices(adapter: Adapter) -> usize {
    match adapter.software {
        true => 16,
        false => 64,
    }
}

/// Invocations of a workgroup that chooses tokens: those that pass a barrier together.
pub(super) const fn sample_lanes(adapter: Adapter) -> usize {
    match adapter.software {
        true => adapter.lanes,
        false => 64,
    }
}

/// A kernel with an invocation for each of `items` items of a row.
pub(super) fn by_items(
    kernel: &'static Kernel,
    overrides: Overrides,
    items: usize,
) -> (Variant, Grid) {
    let lanes = 64;
    (
        with_lanes(kernel, overrides, lanes),
        Grid::Items { items, lanes },
    )
}

pub(super) fn with_lanes(
    kernel: &'static Kernel,
    mut overrides: Overrides,
    lanes: usize,
) -> Variant {
    overrides.push(("LANES", lanes as f64));
    Variant { kernel, overrides }
}
