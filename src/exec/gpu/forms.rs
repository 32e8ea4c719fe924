//! The one table: which kernels, with which overrides, serve which operation, weight format and shape.
//!
//! Where several fit, they are listed in the order of preference for a machine of the adapter's kind
//! that nobody has measured; tuning may choose another. Every operation has a form that needs no
//! optional feature of the device.

use super::{
    dispatch::{Grid, Overrides, quads},
    fused_kernels::{MATMUL_FUSED_VECTOR, MATMUL_FUSED_WORKGROUP},
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
}

/// A form of matrix multiplication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatMulForm {
    /// An invocation owns outputs of one row.
    Vector,
    /// An invocation owns outputs of several rows, its neighbours those of other rows.
    Tile,
    /// An invocation owns outputs of several rows, its neighbours other outputs of the same rows.
    Batch,
    /// A workgroup owns outputs of one row.
    Workgroup,
}

/// Rows of one invocation in `matmul_tile.wgsl`.
const TILE_ROWS: usize = 4;
/// Outputs of one workgroup in `matmul_workgroup.wgsl`.
const WORKGROUP_OUTPUTS: usize = 4;
/// From this many rows on it may pay to share each weight among rows.
const SOME_ROWS: usize = 4;
/// From this many rows on it pays.
const MANY_ROWS: usize = 16;
/// From this many rows on a software adapter's vectors are full with groups of rows.
const WIDE_ROWS: usize = 32;

/// What fits, by the least number of rows.
pub(super) fn matmul(adapter: Adapter) -> [(usize, Vec<MatMulForm>); 3] {
    use MatMulForm::{Batch, Tile, Vector, Workgroup};
    if adapter.software {
        [
            (1, vec![Vector, Workgroup]),
            (SOME_ROWS, vec![Batch, Vector, Tile, Workgroup]),
            (WIDE_ROWS, vec![Tile, Batch, Vector, Workgroup]),
        ]
    } else {
        [
            (1, vec![Workgroup, Vector]),
            (SOME_ROWS, vec![Workgroup, Tile, Vector, Batch]),
            (MANY_ROWS, vec![Tile, Workgroup, Vector, Batch]),
        ]
    }
}

/// The most rows that fused forms are for: they have no form that shares weights among rows.
pub(super) const fn fused_rows(adapter: Adapter) -> usize {
    match adapter.software {
        true => SOME_ROWS - 1,
        false => MANY_ROWS - 1,
    }
}

impl MatMulForm {
    /// The stem of its kernels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vector => "matmul_vector",
            Self::Tile => "matmul_tile",
            Self::Batch => "matmul_batch",
            Self::Workgroup => "matmul_workgroup",
        }
    }

    /// Whether it may be the fastest for `from` rows and more, so that measuring it is worth the time.
    /// Software adapters pay too much for barriers, and gather whatever an invocation reads; on others
    /// neighbours should not read far apart.
    pub const fn promising(self, adapter: Adapter, from: usize) -> bool {
        match (self, adapter.software) {
            (Self::Workgroup, software) => !software,
            (Self::Tile, true) => from >= WIDE_ROWS,
            (Self::Vector, true) => from < WIDE_ROWS,
            (Self::Batch, software) => software && from < WIDE_ROWS,
            (Self::Tile | Self::Vector, false) => true,
        }
    }

    /// Its kernel for a weight of `dtype`, or a part of it, with `outputs` rows.
    pub fn kernel(
        self,
        adapter: Adapter,
        dtype: DType,
        outputs: usize,
        mut overrides: Overrides,
    ) -> (Variant, Grid) {
        let lanes = adapter.lanes;
        if matches!(self, Self::Tile | Self::Batch) {
            let by_outputs = matches!(self, Self::Batch);
            overrides.push(("BY_OUTPUTS", f64::from(by_outputs)));
        }
        match self {
            Self::Vector => (
                with_lanes(kernels::MATMUL_VECTOR.of(dtype), overrides, lanes),
                strips(outputs, lanes),
            ),
            Self::Tile => {
                let lanes = lanes.min(16);
                let grid = Grid::Shared {
                    outputs,
                    lanes: 1,
                    rows: lanes * TILE_ROWS,
                    least: 48,
                    most: 192,
                };
                (
                    with_lanes(kernels::MATMUL_TILE.of(dtype), overrides, lanes),
                    grid,
                )
            }
            Self::Batch => {
                let grid = Grid::Shared {
                    outputs,
                    lanes,
                    rows: TILE_ROWS,
                    least: 48,
                    most: 96,
                };
                (
                    with_lanes(kernels::MATMUL_TILE.of(dtype), overrides, lanes),
                    grid,
                )
            }
            Self::Workgroup => {
                let groups = outputs.div_ceil(WORKGROUP_OUTPUTS);
                let kernel = kernels::MATMUL_WORKGROUP.of(dtype);
                (with_lanes(kernel, overrides, 64), Grid::Groups { groups })
            }
        }
    }
}

/// Normalisation, products and gating in one, the preferred first: stem, whether it has barriers, kernel
/// and grid for a weight of `dtype`, or a part of it, with `outputs` outputs.
pub(super) fn matmul_fused(
    adapter: Adapter,
    dtype: DType,
    outputs: usize,
    overrides: &Overrides,
) -> Vec<(&'static str, bool, Variant, Grid)> {
    let lanes = adapter.lanes;
    let vector = MATMUL_FUSED_VECTOR.of(dtype);
    let workgroup = MATMUL_FUSED_WORKGROUP.of(dtype);
    let groups = outputs.div_ceil(WORKGROUP_OUTPUTS);
    let mut forms = vec![
        (
            "matmul_fused_vector",
            false,
            with_lanes(vector, overrides.clone(), lanes),
            strips(outputs, lanes),
        ),
        (
            "matmul_fused_workgroup",
            true,
            with_lanes(workgroup, overrides.clone(), 64),
            Grid::Groups { groups },
        ),
    ];
    if !adapter.software {
        forms.reverse();
    }
    forms
}

/// Enough outputs for each invocation to make up for loading x, few enough to leave work for every core.
fn strips(outputs: usize, lanes: usize) -> Grid {
    let strip = (96 / lanes).max(1);
    Grid::Shared {
        outputs,
        lanes,
        rows: 1,
        least: strip,
        // Where there is work for every core anyway, loading x less often is better still.
        most: if strip > 1 { 2 * strip } else { 1 },
    }
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
    let together = Grid::Groups { groups };
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
                Grid::Groups { groups: items },
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

/// Attention in parts by one of `kernels`, and what joins them, or `None` where the heads are not whole tiles of 16 values.
pub(super) fn attention_split(
    adapter: Adapter,
    cache: &CacheSpec,
    heads: usize,
    kernels: &'static ByCache,
    mut overrides: Overrides,
) -> Option<[(Variant, Grid); 2]> {
    let lanes = adapter.lanes;
    if !cache.head_dim.is_multiple_of(16) || cache.head_dim > 128 {
        return None;
    }
    let shared = heads / cache.kv_heads;
    let group = (1..=4).rev().find(|&group| shared.is_multiple_of(group))?;
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

fn with_lanes(kernel: &'static Kernel, mut overrides: Overrides, lanes: usize) -> Variant {
    overrides.push(("LANES", lanes as f64));
    Variant { kernel, overrides }
}
