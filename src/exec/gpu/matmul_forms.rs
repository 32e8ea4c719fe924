//! The forms of matrix multiplication, alone and with what goes before and after it.

#[cfg(not(target_arch = "wasm32"))]
use super::subgroup_kernels::MATMUL_BROADCAST;
use super::{
    dispatch::{Grid, Overrides},
    forms::{Adapter, with_lanes},
    fused_kernels::{MATMUL_FUSED_VECTOR, MATMUL_FUSED_WORKGROUP},
    matmul_kernels::{MATMUL_ROWS, MATMUL_SHARED, MATMUL_TILE, MATMUL_VECTOR, MATMUL_WORKGROUP},
    pipelines::Variant,
};
use crate::tensor::DType;

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
    /// A workgroup owns outputs of some rows.
    Rows,
    /// A workgroup owns outputs of many rows, and shares what it reads for them.
    Shared,
    /// An invocation owns outputs of many rows, which its subgroup reads together.
    #[cfg(not(target_arch = "wasm32"))]
    Broadcast,
}

/// Rows of one invocation in `matmul_tile.wgsl`.
const TILE_ROWS: usize = 4;
/// Outputs of one workgroup in `matmul_workgroup.wgsl` and `matmul_rows.wgsl`.
const WORKGROUP_OUTPUTS: usize = 4;
/// Rows of one workgroup in `matmul_rows.wgsl`.
const WORKGROUP_ROWS: usize = 8;
/// Outputs, and rows, of one workgroup in `matmul_shared.wgsl`.
const SHARED_SIDE: usize = 64;
/// Outputs of one invocation in `matmul_broadcast.wgsl`.
#[cfg(not(target_arch = "wasm32"))]
const BROADCAST_OUTPUTS: usize = 8;
/// Rows that make up for dequantising a chunk of the weight.
#[cfg(not(target_arch = "wasm32"))]
const BROADCAST_ROWS: usize = 256;
/// From this many rows on it may pay to share each weight among rows.
const SOME_ROWS: usize = 4;
/// From this many rows on it pays.
const MANY_ROWS: usize = 16;
/// From this many rows on it pays software adapters that rows pass by a chunk of the weight.
const PASSING_ROWS: usize = 8;
/// From this many rows on a software adapter's vectors are full with groups of rows.
pub(super) const WIDE_ROWS: usize = 32;

/// What fits, by the least number of rows; `whole`: whether rows of the weight are whole blocks of 32 values.
pub(super) fn matmul(adapter: Adapter, whole: bool) -> [(usize, Vec<MatMulForm>); 3] {
    use MatMulForm::{Batch, Rows, Shared, Tile, Vector, Workgroup};
    let mut classes = if adapter.software {
        [
            (1, vec![Vector, Workgroup, Rows, Shared]),
            (
                SOME_ROWS,
                vec![Batch, Vector, Tile, Workgroup, Rows, Shared],
            ),
            (
                WIDE_ROWS,
                vec![Tile, Batch, Vector, Workgroup, Rows, Shared],
            ),
        ]
    } else {
        [
            (1, vec![Workgroup, Vector, Rows, Shared]),
            (2, vec![Rows, Workgroup, Shared, Tile, Vector, Batch]),
            (
                MANY_ROWS,
                vec![Shared, Rows, Tile, Workgroup, Vector, Batch],
            ),
        ]
    };
    if adapter.subgroups && whole {
        add_subgroup_forms(adapter, &mut classes);
    }
    classes
}

/// wgpu offers no subgroups to pages.
#[cfg(target_arch = "wasm32")]
fn add_subgroup_forms(_: Adapter, _: &mut [(usize, Vec<MatMulForm>); 3]) {}

#[cfg(not(target_arch = "wasm32"))]
fn add_subgroup_forms(adapter: Adapter, classes: &mut [(usize, Vec<MatMulForm>); 3]) {
    for (_, forms) in classes.iter_mut() {
        forms.push(MatMulForm::Broadcast);
    }
    if adapter.software {
        let (from, forms) = &mut classes[2];
        *from = PASSING_ROWS;
        forms.rotate_right(1);
    }
}

/// The most rows that fused forms are for: they have no form that shares weights among rows, and where
/// arithmetic is cheap, reading the weight once more costs more than the dispatches that they save.
pub(super) const fn fused_rows(adapter: Adapter) -> usize {
    match adapter.software {
        true => SOME_ROWS - 1,
        false => 1,
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
            Self::Rows => "matmul_rows",
            Self::Shared => "matmul_shared",
            #[cfg(not(target_arch = "wasm32"))]
            Self::Broadcast => "matmul_broadcast",
        }
    }

    /// Whether it may be the fastest for `from` rows and more, so that measuring it is worth the time.
    /// Software adapters pay too much for barriers, and gather whatever an invocation reads; on others
    /// neighbours should not read far apart, and few values of an invocation find room in registers.
    pub const fn promising(self, adapter: Adapter, from: usize) -> bool {
        match (self, adapter.software) {
            (Self::Tile, true) => from >= WIDE_ROWS,
            (Self::Vector, true) => from < PASSING_ROWS,
            (Self::Batch, software) => software && from < PASSING_ROWS,
            (Self::Workgroup | Self::Rows | Self::Shared, true) => false,
            (Self::Workgroup | Self::Vector, false) => from == 1,
            (Self::Rows, false) => from > 1,
            (Self::Shared, false) => from >= MANY_ROWS,
            // Chunks of x in private arrays leave an invocation without registers.
            (Self::Tile, false) => false,
            #[cfg(not(target_arch = "wasm32"))]
            (Self::Broadcast, software) => software && from >= PASSING_ROWS,
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
                with_lanes(MATMUL_VECTOR.of(dtype), overrides, lanes),
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
                (with_lanes(MATMUL_TILE.of(dtype), overrides, lanes), grid)
            }
            Self::Batch => {
                let grid = Grid::Shared {
                    outputs,
                    lanes,
                    rows: TILE_ROWS,
                    least: 48,
                    most: 96,
                };
                (with_lanes(MATMUL_TILE.of(dtype), overrides, lanes), grid)
            }
            Self::Workgroup => {
                let groups = outputs.div_ceil(WORKGROUP_OUTPUTS);
                let kernel = MATMUL_WORKGROUP.of(dtype);
                let grid = Grid::Groups { groups, rows: 1 };
                (with_lanes(kernel, overrides, 64), grid)
            }
            Self::Rows => {
                let grid = Grid::Groups {
                    groups: outputs.div_ceil(WORKGROUP_OUTPUTS),
                    rows: WORKGROUP_ROWS,
                };
                let kernel = MATMUL_ROWS.of(dtype);
                (Variant { kernel, overrides }, grid)
            }
            Self::Shared => {
                let grid = Grid::Groups {
                    groups: outputs.div_ceil(SHARED_SIDE),
                    rows: SHARED_SIDE,
                };
                let kernel = MATMUL_SHARED.of(dtype);
                (Variant { kernel, overrides }, grid)
            }
            #[cfg(not(target_arch = "wasm32"))]
            Self::Broadcast => {
                let grid = Grid::Shared {
                    outputs,
                    lanes,
                    rows: BROADCAST_ROWS,
                    least: BROADCAST_OUTPUTS,
                    most: BROADCAST_OUTPUTS,
                };
                let kernel = MATMUL_BROADCAST.of(dtype);
                (with_lanes(kernel, overrides, lanes), grid)
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
            Grid::Groups { groups, rows: 1 },
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
        // Where there is work for every core anyway, loading x less often is better still; as many as sums
        // have room for in lib/matmul_chunk.wgsl, where eight are side by side.
        most: if strip > 1 { 4 * strip } else { 1 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_rows_pass_by_where_a_software_adapter_has_subgroups_and_rows_are_whole_blocks() {
        for (subgroups, whole, expected) in [
            (true, true, "matmul_broadcast"),
            (true, false, "matmul_batch"),
            (false, true, "matmul_batch"),
        ] {
            let adapter = Adapter {
                software: true,
                lanes: 8,
                subgroups,
            };
            let first = |rows: usize| {
                let classes = matmul(adapter, whole);
                let (from, forms) = classes.into_iter().rfind(|class| class.0 <= rows)?;
                let first = forms.into_iter().find(|form| form.promising(adapter, from));
                first.map(MatMulForm::name)
            };
            assert_eq!(first(8), Some(expected), "{subgroups} {whole}");
            assert_eq!(first(7), Some("matmul_batch"));
        }
    }

    #[test]
    fn every_form_can_be_named_and_a_gpu_shares_weights_among_rows() {
        for software in [true, false] {
            let adapter = Adapter {
                software,
                lanes: 8,
                subgroups: true,
            };
            let classes = matmul(adapter, true);
            let all = classes[0].1.len().max(classes[2].1.len());
            for (from, forms) in &classes {
                let first = forms[0];
                assert!(first.promising(adapter, *from), "{first:?} from {from}");
                if *from > 1 {
                    assert_eq!(forms.len(), all, "{forms:?} from {from}");
                }
            }
        }
        let gpu = Adapter {
            software: false,
            lanes: 64,
            subgroups: false,
        };
        let preferred = |rows: usize| {
            let classes = matmul(gpu, true);
            classes
                .iter()
                .rev()
                .find(|class| class.0 <= rows)
                .unwrap()
                .1[0]
                .name()
        };
        let found = [1, 2, 15, 16, 512].map(preferred);
        let rows = "matmul_rows";
        assert_eq!(
            found,
            [
                "matmul_workgroup",
                rows,
                rows,
                "matmul_shared",
                "matmul_shared"
            ]
        );
    }
}
