//! The kernels that choose tokens.

use super::{
    kernels::{Kernel, kernel, read, write},
    params::SampleParams,
};

/// Every kernel of sampling, in the order in which they run.
pub(super) fn sample_kernels() -> [&'static Kernel; 5] {
    [
        &SAMPLE_NORMALISE,
        &SAMPLE_SCORES,
        &SAMPLE_BINS,
        &SAMPLE_CANDIDATES,
        &SAMPLE_PICK,
    ]
}

pub(super) static SAMPLE_NORMALISE: Kernel = kernel!(
    "sample_normalise",
    "",
    ["sample_normalise.wgsl", "lib/sample.wgsl"],
    SampleParams,
    [read(1), read(2), write(3)],
    ["LANES"]
);
pub(super) static SAMPLE_SCORES: Kernel = kernel!(
    "sample_scores",
    "",
    [
        "sample_scores.wgsl",
        "lib/sample.wgsl",
        "lib/sample_noise.wgsl"
    ],
    SampleParams,
    [
        read(1),
        read(2),
        read(3),
        read(4),
        read(5),
        write(6),
        write(7),
        write(8)
    ],
    ["LANES"]
);
pub(super) static SAMPLE_BINS: Kernel = kernel!(
    "sample_bins",
    "",
    [
        "sample_bins.wgsl",
        "lib/sample.wgsl",
        "lib/sample_best.wgsl"
    ],
    SampleParams,
    [read(1), read(2), read(3), write(4), write(5)],
    ["LANES", "PARTIALS"]
);
pub(super) static SAMPLE_CANDIDATES: Kernel = kernel!(
    "sample_candidates",
    "",
    [
        "sample_candidates.wgsl",
        "lib/sample.wgsl",
        "lib/sample_best.wgsl"
    ],
    SampleParams,
    [read(1), read(2), read(3), read(4), read(5), write(6)],
    ["LANES", "PARTIALS"]
);
pub(super) static SAMPLE_PICK: Kernel = kernel!(
    "sample_pick",
    "",
    [
        "sample_pick.wgsl",
        "lib/sample.wgsl",
        "lib/sample_best.wgsl",
        "lib/sample_noise.wgsl"
    ],
    SampleParams,
    [
        write(1),
        read(2),
        write(3),
        read(4),
        read(5),
        read(6),
        write(7),
        write(8)
    ],
    ["LANES", "PARTIALS"]
);
