//! The kernels whose invocations exchange values in subgroups, for adapters that have them.
//!
//! Pages do not download these: wgpu asks no browser for subgroups.

use super::{
    kernels::{ByFormat, Kernel, MATMUL, MATMUL_PLAIN, by_format, kernel},
    params::MatMulParams,
};

pub(super) static MATMUL_BROADCAST: ByFormat = by_format!(
    "matmul_broadcast",
    MatMulParams,
    [
        "matmul_broadcast.wgsl",
        "lib/matmul_params.wgsl",
        "lib/activation.wgsl",
        "lib/tanh.wgsl"
    ],
    MATMUL_PLAIN,
    MATMUL,
    ["LANES"]
);

/// Every kernel that needs subgroups.
pub(super) fn subgroup_kernels() -> impl Iterator<Item = &'static Kernel> {
    MATMUL_BROADCAST.into_iter()
}
