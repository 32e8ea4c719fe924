//! `short_conv.wgsl` against its formula, in one dispatch and in two.

use decant::{exec::gpu::GpuOptions, ops::CacheType};

use crate::{
    gpu, only, shared,
    support::short_conv::{Case, check, sweep},
};

#[test]
fn channels_taps_and_pages_over_tails() {
    sweep(|case| {
        let Some(mut gpu) = shared(only("short_conv")) else {
            return;
        };
        let dispatches = check(&mut *gpu, "gpu", case);
        // Two inputs and two convolutions, each of which stores first where rows may need each other.
        let alone = case.lengths.iter().all(|&(_, now)| now == 1);
        assert_eq!(dispatches, if alone { 4 } else { 6 });
    });
}

#[test]
fn rows_alone_take_two_dispatches_where_nothing_runs_together() {
    let Some(mut gpu) = gpu(GpuOptions {
        separate: true,
        ..only("short_conv")
    }) else {
        return;
    };
    for dtype in [CacheType::F32, CacheType::F16] {
        let case = Case {
            width: 65,
            taps: 3,
            bias: true,
            dtype,
            page: 4,
            lengths: vec![(9, 1), (0, 1), (1, 1)],
        };
        assert_eq!(check(&mut gpu, "separate", &case), 6);
    }
}
