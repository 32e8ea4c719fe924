//! The kernels of matrix multiplication alone.

use super::{
    kernels::{ByFormat, Kernel, MATMUL, MATMUL_PLAIN, by_format, kernel},
    params::MatMulParams,
};

pub(super) static MATMUL_VECTOR: ByFormat = by_format!(
    "matmul_vector",
    MatMulParams,
    [
        "matmul_vector.wgsl",
        "lib/matmul_chunk.wgsl",
        "lib/matmul.wgsl",
        "lib/matmul_params.wgsl",
        "lib/activation.wgsl",
        "lib/tanh.wgsl"
    ],
    MATMUL_PLAIN,
    MATMUL,
    ["LANES"]
);
pub(super) static MATMUL_TILE: ByFormat = by_format!(
    "matmul_tile",
    MatMulParams,
    [
        "matmul_tile.wgsl",
        "lib/matmul.wgsl",
        "lib/matmul_params.wgsl",
        "lib/activation.wgsl",
        "lib/tanh.wgsl"
    ],
    MATMUL_PLAIN,
    MATMUL,
    ["LANES", "BY_OUTPUTS"]
);
pub(super) static MATMUL_WORKGROUP: ByFormat = by_format!(
    "matmul_workgroup",
    MatMulParams,
    [
        "matmul_workgroup.wgsl",
        "lib/matmul.wgsl",
        "lib/matmul_params.wgsl",
        "lib/activation.wgsl",
        "lib/tanh.wgsl"
    ],
    MATMUL_PLAIN,
    MATMUL,
    ["LANES"]
);
pub(super) static MATMUL_ROWS: ByFormat = by_format!(
    "matmul_rows",
    MatMulParams,
    [
        "matmul_rows.wgsl",
        "lib/matmul.wgsl",
        "lib/matmul_params.wgsl",
        "lib/activation.wgsl",
        "lib/tanh.wgsl"
    ],
    MATMUL_PLAIN,
    MATMUL,
    []
);
pub(super) static MATMUL_SHARED: ByFormat = by_format!(
    "matmul_shared",
    MatMulParams,
    [
        "matmul_shared.wgsl",
        "lib/matmul.wgsl",
        "lib/matmul_params.wgsl",
        "lib/activation.wgsl",
        "lib/tanh.wgsl"
    ],
    MATMUL_PLAIN,
    MATMUL,
    []
);
