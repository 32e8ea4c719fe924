//! The kernels whose invocations exchange values in subgroups, for adapters that have them.
//!
//! Pages do not download these: wgpu asks no browser for subgroups.

use super::{
    kernels::{
        ByCache, ByFormat, Kernel, MATMUL, MATMUL_PLAIN, by_cache, by_format, kernel, read, write,
    },
    params::{AttentionParams, MatMulParams},
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

pub(super) static ATTENTION_BROADCAST: ByCache = by_cache!(
    "attention_broadcast",
    AttentionParams,
    [
        "attention_broadcast.wgsl",
        "lib/attention.wgsl",
        "lib/attention_queries.wgsl",
        "lib/attention_tiles.wgsl",
        "lib/attention_scores.wgsl",
        "lib/tanh.wgsl"
    ],
    [read(1), read(2), read(3), read(4), write(5)],
    ["LANES", "GROUP", "TILES"]
);

/// Every kernel that needs subgroups.
pub(super) fn subgroup_kernels() -> impl Iterator<Item = &'static Kernel> {
    MATMUL_BROADCAST.into_iter().chain(&ATTENTION_BROADCAST)
}
