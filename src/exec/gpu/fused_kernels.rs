//! The kernels that do several operations together.

use super::{
    kernels::{ByCache, ByFormat, Kernel, by_cache, by_format, kernel, read, write},
    params::{AttentionRotaryParams, MatMulFusedParams},
};

pub(super) static MATMUL_FUSED_VECTOR: ByFormat = by_format!(
    "matmul_fused_vector",
    MatMulFusedParams,
    [
        "matmul_fused_vector.wgsl",
        "lib/matmul_chunk.wgsl",
        "lib/matmul_fused.wgsl",
        "lib/activation.wgsl",
        "lib/tanh.wgsl"
    ],
    [read(1), read(2), read(3), read(5), read(6), write(8)],
    [
        read(1),
        read(2),
        read(3),
        read(4),
        read(5),
        read(6),
        write(8)
    ],
    ["LANES", "NORMED", "GATED"]
);
pub(super) static MATMUL_FUSED_WORKGROUP: ByFormat = by_format!(
    "matmul_fused_workgroup",
    MatMulFusedParams,
    [
        "matmul_fused_workgroup.wgsl",
        "lib/matmul_fused.wgsl",
        "lib/activation.wgsl",
        "lib/tanh.wgsl"
    ],
    [read(1), read(2), read(3), read(5), read(6), write(8)],
    [
        read(1),
        read(2),
        read(3),
        read(4),
        read(5),
        read(6),
        write(8)
    ],
    ["LANES", "NORMED", "GATED"]
);
pub(super) static ATTENTION_ROTARY: ByCache = by_cache!(
    "attention_rotary",
    AttentionRotaryParams,
    [
        "attention_rotary.wgsl",
        "lib/attention_rotary.wgsl",
        "lib/attention_tiles.wgsl",
        "lib/attention_scores.wgsl",
        "lib/tanh.wgsl"
    ],
    [read(1), read(2), read(3), write(4), write(5), write(6)],
    ["LANES", "NEIGHBOURS", "GROUP", "TILES"]
);
pub(super) static ATTENTION_ROTARY_WORKGROUP: ByCache = by_cache!(
    "attention_rotary_workgroup",
    AttentionRotaryParams,
    [
        "attention_rotary_workgroup.wgsl",
        "lib/attention_rotary.wgsl",
        "lib/attention_shared.wgsl",
        "lib/attention_scores.wgsl",
        "lib/tanh.wgsl"
    ],
    [read(1), read(2), read(3), write(4), write(5), write(6)],
    ["NEIGHBOURS"]
);
