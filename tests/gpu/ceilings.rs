//! The adapter's ceilings: the kernels that measure compute what they should, which they check themselves.

use decant::exec::gpu::GpuOptions;
use pollster::block_on;

use crate::gpu;

#[test]
fn ceilings_are_measured_by_kernels_that_do_their_work() {
    let Some(gpu) = gpu(GpuOptions::default()) else {
        return;
    };
    let before = gpu.allocated_bytes();
    let ceilings = block_on(gpu.ceilings()).unwrap();
    for rate in [ceilings.read, ceilings.multiply_add, ceilings.round_trip] {
        assert!(rate.is_finite() && rate > 0.0, "{ceilings:?}");
    }
    assert!(ceilings.dispatch.is_finite() && ceilings.dispatch >= 0.0);
    assert_eq!(gpu.allocated_bytes(), before, "nothing is kept");
}

#[test]
fn without_room_to_read_nothing_is_measured() {
    let options = GpuOptions {
        memory_limit: Some(1 << 20),
        ..GpuOptions::default()
    };
    let Some(gpu) = gpu(options) else { return };
    let error = block_on(gpu.ceilings()).unwrap_err();
    assert_eq!(error.kind(), &decant::error::ErrorKind::OutOfMemory);
    assert_eq!(gpu.allocated_bytes(), 0);
}
