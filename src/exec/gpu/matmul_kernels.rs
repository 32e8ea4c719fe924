//! The kernels of matrix multiplication alone.

use super::{
    kernels::{ByFormat, Kernel, MATMUL, MATMUL_PLAIN, by_format, kernel},
    params::MatMulParams,
};

/// A form: its own files, and its overrides.
macro_rules! matmul {
    ($stem:literal, [$($file:literal),*], [$($override:literal),*]) => {
        by_format!(
            $stem,
            MatMulParams,
            [
                $($file,)*
                "lib/matmul.wgsl",
                "lib/matmul_params.wgsl",
                "lib/activation.wgsl",
                "lib/tanh.wgsl"
            ],
            MATMUL_PLAIN,
            MATMUL,
            [$($override),*]
        )
    };
}

pub(super) static MATMUL_VECTOR: ByFormat = matmul!(
    "matmul_vector",
    ["matmul_vector.wgsl", "lib/matmul_chunk.wgsl"],
    ["LANES"]
);
pub(super) static MATMUL_TILE: ByFormat =
    matmul!("matmul_tile", ["matmul_tile.wgsl"], ["LANES", "BY_OUTPUTS"]);
pub(super) static MATMUL_WORKGROUP: ByFormat =
    matmul!("matmul_workgroup", ["matmul_workgroup.wgsl"], ["LANES"]);
pub(super) static MATMUL_ROWS: ByFormat = matmul!("matmul_rows", ["matmul_rows.wgsl"], []);
pub(super) static MATMUL_SHARED: ByFormat = matmul!("matmul_shared", ["matmul_shared.wgsl"], []);
