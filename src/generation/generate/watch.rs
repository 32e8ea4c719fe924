//! What a call asks of the device, counted and, where that was asked for, timed.

use crate::{
    exec::{Executor, Profile},
    generation::stats::Timings,
};

/// Hands work to `executor`, which counts it at once; its kernels' times go to `profile` as it is done.
pub(super) fn watched<T>(
    executor: &dyn Executor,
    profile: Option<&Profile>,
    timings: &mut Timings,
    hand_over: impl FnOnce() -> T,
) -> T {
    let before = executor.counters();
    executor.set_profile(profile.cloned());
    let handed = hand_over();
    executor.set_profile(None);
    let after = executor.counters();
    timings.forwards += after.forwards - before.forwards;
    timings.dispatches += after.dispatches - before.dispatches;
    timings.submits += after.submits - before.submits;
    timings.bytes_uploaded += after.bytes_uploaded - before.bytes_uploaded;
    handed
}
