//! What a machine can do at best, so that what kernels do can be told as a share of it.

/// Rates measured with programs that do one thing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceilings {
    /// Bytes read in a second, one after another, from a buffer larger than the caches of a core.
    pub read: f64,
    /// Multiply-adds in a second, in single precision.
    pub multiply_add: f64,
    /// Seconds that a dispatch costs beside its work; 0 where there are none.
    pub dispatch: f64,
    /// Seconds from handing over a submission with next to no work until its result has been read back; 0
    /// where nothing is handed over.
    pub round_trip: f64,
}

/// The best of several runs of `run`, in seconds.
pub(super) fn best(runs: usize, mut run: impl FnMut() -> f64) -> f64 {
    (0..runs).map(|_| run()).fold(f64::INFINITY, f64::min)
}
