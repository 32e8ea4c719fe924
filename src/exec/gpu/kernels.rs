//! The registry: every kernel there is, with its source, parameters, bindings and overrides.
//!
//! A source is several files joined; WGSL declarations may stand in any order, so the order of files does not
//! matter. Nothing outside this list can be run, and tests walk it: naga parses and validates each kernel, and a
//! browser compiles it.

use super::{
    fused_kernels::{
        ATTENTION_ROTARY, ATTENTION_ROTARY_WORKGROUP, MATMUL_FUSED_VECTOR, MATMUL_FUSED_WORKGROUP,
    },
    matmul_kernels::{MATMUL_ROWS, MATMUL_SHARED, MATMUL_TILE, MATMUL_VECTOR, MATMUL_WORKGROUP},
    params::{
        AttentionMergeParams, AttentionParams, EmbedParams, ExpertsParams, NormParams,
        RotaryStoreParams, RouteParams, Scalar, SelectRowsParams, ShortConvParams,
    },
    sample_kernels::sample_kernels,
};
use crate::{ops::CacheType, tensor::DType};

/// A shader and what it needs.
#[derive(Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The stem of its file and, after a full stop, the format.
    pub name: &'static str,
    /// The files of its WGSL text. Kernels share most of theirs, so a page downloads each file once.
    pub files: &'static [&'static str],
    /// The fields of its `Params`, binding 0, a word each.
    pub params: &'static [(&'static str, Scalar)],
    /// Its other bindings, all storage buffers of group 0.
    pub bindings: &'static [Binding],
    /// The names of its overrides; each has a default.
    pub overrides: &'static [&'static str],
}

impl Kernel {
    /// The whole WGSL text. The entry point is `main`.
    pub fn source(&self) -> String {
        self.files.join("\n")
    }
}

/// A storage buffer of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding {
    /// Its number in group 0.
    pub number: u32,
    /// Whether the kernel writes to it.
    pub writes: bool,
}

pub(super) const fn read(number: u32) -> Binding {
    Binding {
        number,
        writes: false,
    }
}

pub(super) const fn write(number: u32) -> Binding {
    Binding {
        number,
        writes: true,
    }
}

/// The name of every kernel's entry point.
pub const ENTRY: &str = "main";

/// Every kernel.
pub fn kernels() -> impl Iterator<Item = &'static Kernel> {
    let by_format = [
        &MATMUL_VECTOR,
        &MATMUL_TILE,
        &MATMUL_WORKGROUP,
        &MATMUL_ROWS,
        &MATMUL_SHARED,
        &MATMUL_FUSED_VECTOR,
        &MATMUL_FUSED_WORKGROUP,
        &EMBED,
        &EXPERTS,
        &EXPERTS_WORKGROUP,
    ];
    let by_cache = [
        &ROTARY_STORE,
        &ATTENTION,
        &ATTENTION_SPLIT,
        &ATTENTION_WORKGROUP,
        &ATTENTION_ROTARY,
        &ATTENTION_ROTARY_WORKGROUP,
        &SHORT_CONV,
    ];
    let plain = [&ROUTE, &SELECT_ROWS, &ATTENTION_MERGE];
    let plain = NORM.iter().chain(&NORM_WORKGROUP).chain(plain);
    let by_format = by_format.into_iter().flatten();
    let by_cache = by_cache.into_iter().flatten();
    by_format
        .chain(by_cache)
        .chain(plain)
        .chain(sample_kernels())
        .chain(native_kernels())
}

/// Those that pages do not download: of `decant bench`, and with subgroups.
#[cfg(not(target_arch = "wasm32"))]
fn native_kernels() -> impl Iterator<Item = &'static Kernel> {
    super::ceilings::measuring_kernels().chain(super::subgroup_kernels::subgroup_kernels())
}
#[cfg(target_arch = "wasm32")]
fn native_kernels() -> impl Iterator<Item = &'static Kernel> {
    std::iter::empty()
}

/// A kernel for each weight format, in the order of [`DType::ALL`].
pub(super) struct ByFormat(pub(super) [Kernel; DType::ALL.len()]);

impl ByFormat {
    pub fn of(&'static self, dtype: DType) -> &'static Kernel {
        &self.0[dtype as usize]
    }
}

impl<'a> IntoIterator for &'a ByFormat {
    type Item = &'a Kernel;
    type IntoIter = std::slice::Iter<'a, Kernel>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// A kernel for each cache format.
pub(super) struct ByCache(pub(super) [Kernel; 2]);

impl ByCache {
    pub fn of(&'static self, dtype: CacheType) -> &'static Kernel {
        &self.0[match dtype {
            CacheType::F32 => 0,
            CacheType::F16 => 1,
        }]
    }
}

impl<'a> IntoIterator for &'a ByCache {
    type Item = &'a Kernel;
    type IntoIter = std::slice::Iter<'a, Kernel>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// A kernel for each format from one body, with the bindings `$plain` where the format has no scales and
/// `$scaled` where it has.
macro_rules! by_format {
    ($stem:literal, $params:ty, [$($file:literal),*], $plain:expr, $scaled:expr, [$($override:literal),*]) => {
        ByFormat([
            kernel!($stem, ".F32", [$($file,)* "lib/plain_weight.wgsl", "lib/f32.wgsl", "lib/scale_each.wgsl"], $params, $plain, [$($override,)* "ALIGNED"]),
            kernel!($stem, ".F16", [$($file,)* "lib/plain_weight.wgsl", "lib/f16.wgsl", "lib/stripes.wgsl", "lib/scale_each.wgsl"], $params, $plain, [$($override,)* "ALIGNED", "STRIPE"]),
            kernel!($stem, ".BF16", [$($file,)* "lib/plain_weight.wgsl", "lib/bf16.wgsl", "lib/stripes.wgsl", "lib/scale_each.wgsl"], $params, $plain, [$($override,)* "ALIGNED", "STRIPE"]),
            kernel!($stem, ".Q8_0", [$($file,)* "lib/q8_0.wgsl", "lib/stripes.wgsl", "lib/scale_pairs.wgsl"], $params, $scaled, [$($override,)* "STRIPE"]),
            kernel!($stem, ".Q4_0", [$($file,)* "lib/nibbles.wgsl", "lib/q4_0.wgsl", "lib/stripes.wgsl", "lib/scale_pairs.wgsl"], $params, $scaled, [$($override,)* "STRIPE"]),
            kernel!($stem, ".Q4_1", [$($file,)* "lib/nibbles.wgsl", "lib/q4_1.wgsl", "lib/stripes.wgsl", "lib/scale_each.wgsl"], $params, $scaled, [$($override,)* "STRIPE"]),
            kernel!($stem, ".Q5_0", [$($file,)* "lib/bytes.wgsl", "lib/fives.wgsl", "lib/q5_0.wgsl", "lib/stripes.wgsl", "lib/scale_each.wgsl"], $params, $scaled, [$($override,)* "STRIPE"]),
            kernel!($stem, ".Q5_1", [$($file,)* "lib/bytes.wgsl", "lib/fives.wgsl", "lib/q5_1.wgsl", "lib/stripes.wgsl", "lib/scale_each.wgsl"], $params, $scaled, [$($override,)* "STRIPE"]),
            kernel!($stem, ".Q2_K", [$($file,)* "lib/bytes.wgsl", "lib/halves.wgsl", "lib/q2_k.wgsl", "lib/stripes.wgsl", "lib/scale_each.wgsl"], $params, $scaled, [$($override,)* "STRIPE"]),
            kernel!($stem, ".Q3_K", [$($file,)* "lib/bytes.wgsl", "lib/halves.wgsl", "lib/q3_k.wgsl", "lib/stripes.wgsl", "lib/scale_each.wgsl"], $params, $scaled, [$($override,)* "STRIPE"]),
            kernel!($stem, ".Q4_K", [$($file,)* "lib/nibbles.wgsl", "lib/k_scales.wgsl", "lib/q4_k.wgsl", "lib/stripes.wgsl", "lib/scale_each.wgsl"], $params, $scaled, [$($override,)* "STRIPE"]),
            kernel!($stem, ".Q5_K", [$($file,)* "lib/bytes.wgsl", "lib/fives.wgsl", "lib/k_scales.wgsl", "lib/q5_k.wgsl", "lib/stripes.wgsl", "lib/scale_each.wgsl"], $params, $scaled, [$($override,)* "STRIPE"]),
            kernel!($stem, ".Q6_K", [$($file,)* "lib/bytes.wgsl", "lib/halves.wgsl", "lib/q6_k.wgsl", "lib/stripes.wgsl", "lib/scale_each.wgsl"], $params, $scaled, [$($override,)* "STRIPE"]),
            kernel!($stem, ".IQ4_NL", [$($file,)* "lib/codes.wgsl", "lib/iq4.wgsl", "lib/iq4_nl.wgsl", "lib/stripes.wgsl", "lib/scale_pairs.wgsl"], $params, $scaled, [$($override,)* "STRIPE"]),
            kernel!($stem, ".IQ4_XS", [$($file,)* "lib/codes.wgsl", "lib/iq4.wgsl", "lib/iq4_xs.wgsl", "lib/stripes.wgsl", "lib/scale_each.wgsl"], $params, $scaled, [$($override,)* "STRIPE"]),
            kernel!($stem, ".MXFP4", [$($file,)* "lib/codes.wgsl", "lib/mxfp4.wgsl", "lib/stripes.wgsl", "lib/scale_each.wgsl"], $params, $scaled, [$($override,)* "STRIPE"]),
        ])
    };
}

/// A kernel for each cache format from one body.
macro_rules! by_cache {
    ($stem:literal, $params:ty, [$($file:literal),*], $bindings:expr, [$($override:literal),*]) => {
        ByCache([
            kernel!($stem, ".F32", [$($file,)* "lib/cache.wgsl", "lib/cache_f32.wgsl"], $params, $bindings, [$($override),*]),
            kernel!($stem, ".F16", [$($file,)* "lib/cache.wgsl", "lib/cache_f16.wgsl"], $params, $bindings, [$($override),*]),
        ])
    };
}

macro_rules! kernel {
    ($stem:literal, $suffix:literal, [$($file:literal),*], $params:ty, $bindings:expr, [$($override:literal),*]) => {
        Kernel {
            name: concat!($stem, $suffix),
            files: &[$(include_str!(concat!("../../../shaders/", $file))),*],
            params: <$params>::FIELDS,
            bindings: &$bindings,
            overrides: &[$($override),*],
        }
    };
}

pub(super) use {by_cache, by_format, kernel};

pub(super) const MATMUL: [Binding; 7] = [
    read(1),
    read(2),
    read(3),
    read(4),
    read(5),
    read(6),
    write(7),
];
const NORM_BINDINGS: [Binding; 5] = [read(1), read(2), read(3), read(4), write(5)];
pub(super) const MATMUL_PLAIN: [Binding; 6] =
    [read(1), read(2), read(3), read(5), read(6), write(7)];

pub(super) static EMBED: ByFormat = by_format!(
    "embed",
    EmbedParams,
    ["embed.wgsl"],
    [read(1), read(3), write(7)],
    [read(1), read(3), read(4), write(7)],
    ["LANES"]
);
/// By quads, and by single values for groups that are no whole quads.
pub(super) static NORM: [Kernel; 2] = [
    kernel!(
        "norm",
        ".quads",
        ["norm.wgsl", "lib/norm.wgsl", "lib/norm_quads.wgsl"],
        NormParams,
        NORM_BINDINGS,
        ["LANES", "CENTRED"]
    ),
    kernel!(
        "norm",
        ".values",
        ["norm.wgsl", "lib/norm.wgsl", "lib/norm_values.wgsl"],
        NormParams,
        NORM_BINDINGS,
        ["LANES", "CENTRED"]
    ),
];
/// As [`NORM`].
pub(super) static NORM_WORKGROUP: [Kernel; 2] = [
    kernel!(
        "norm_workgroup",
        ".quads",
        [
            "norm_workgroup.wgsl",
            "lib/norm.wgsl",
            "lib/norm_quads.wgsl"
        ],
        NormParams,
        NORM_BINDINGS,
        ["LANES", "CENTRED"]
    ),
    kernel!(
        "norm_workgroup",
        ".values",
        [
            "norm_workgroup.wgsl",
            "lib/norm.wgsl",
            "lib/norm_values.wgsl"
        ],
        NormParams,
        NORM_BINDINGS,
        ["LANES", "CENTRED"]
    ),
];
pub(super) static EXPERTS: ByFormat = by_format!(
    "experts",
    ExpertsParams,
    [
        "experts.wgsl",
        "lib/experts.wgsl",
        "lib/activation.wgsl",
        "lib/tanh.wgsl"
    ],
    MATMUL_PLAIN,
    MATMUL,
    ["LANES"]
);
pub(super) static EXPERTS_WORKGROUP: ByFormat = by_format!(
    "experts_workgroup",
    ExpertsParams,
    [
        "experts_workgroup.wgsl",
        "lib/experts.wgsl",
        "lib/activation.wgsl",
        "lib/tanh.wgsl"
    ],
    MATMUL_PLAIN,
    MATMUL,
    ["LANES"]
);
pub(super) static ROUTE: Kernel = kernel!(
    "route",
    "",
    ["route.wgsl"],
    RouteParams,
    [read(1), read(2), write(3)],
    ["LANES"]
);
pub(super) static SELECT_ROWS: Kernel = kernel!(
    "select_rows",
    "",
    ["select_rows.wgsl"],
    SelectRowsParams,
    [read(1), read(2), write(3)],
    ["LANES"]
);
pub(super) static ROTARY_STORE: ByCache = by_cache!(
    "rotary_store",
    RotaryStoreParams,
    ["rotary_store.wgsl"],
    [
        read(1),
        write(2),
        read(3),
        read(4),
        read(5),
        write(6),
        write(7)
    ],
    ["LANES", "NEIGHBOURS"]
);
pub(super) static ATTENTION: ByCache = by_cache!(
    "attention",
    AttentionParams,
    [
        "attention.wgsl",
        "lib/attention.wgsl",
        "lib/attention_scores.wgsl",
        "lib/tanh.wgsl"
    ],
    [read(1), read(2), read(3), read(4), write(5)],
    ["LANES"]
);
pub(super) static ATTENTION_SPLIT: ByCache = by_cache!(
    "attention_split",
    AttentionParams,
    [
        "attention_split.wgsl",
        "lib/attention.wgsl",
        "lib/attention_queries.wgsl",
        "lib/attention_tiles.wgsl",
        "lib/attention_scores.wgsl",
        "lib/tanh.wgsl"
    ],
    [read(1), read(2), read(3), read(4), write(5)],
    ["LANES", "GROUP", "TILES"]
);
pub(super) static ATTENTION_WORKGROUP: ByCache = by_cache!(
    "attention_workgroup",
    AttentionParams,
    [
        "attention_workgroup.wgsl",
        "lib/attention.wgsl",
        "lib/attention_shared.wgsl",
        "lib/attention_scores.wgsl",
        "lib/tanh.wgsl"
    ],
    [read(1), read(2), read(3), read(4), write(5)],
    []
);
pub(super) static SHORT_CONV: ByCache = by_cache!(
    "short_conv",
    ShortConvParams,
    ["short_conv.wgsl"],
    [read(1), read(2), read(3), read(4), write(5), write(6)],
    ["LANES", "STORES", "CONVOLVES"]
);
pub(super) static ATTENTION_MERGE: Kernel = kernel!(
    "attention_merge",
    "",
    ["attention_merge.wgsl"],
    AttentionMergeParams,
    [read(1), read(2), write(3)],
    ["LANES"]
);
