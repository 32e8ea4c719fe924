//! Where a device's time goes, kernel by kernel.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

/// Sums of times by kernel. Clones are handles to the same sums.
#[derive(Debug, Clone, Default)]
pub struct Profile(Rc<RefCell<BTreeMap<&'static str, (u64, f64)>>>);

/// What the dispatches of one kernel took together.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelTime {
    /// The kernel's name: the stem of its shader and, after a full stop, the format it reads. On the CPU the
    /// operation's.
    pub name: &'static str,
    /// How often it ran.
    pub dispatches: u64,
    /// Milliseconds of the device.
    pub ms: f64,
}

impl Profile {
    /// Counts one run of `name` that took `ms` milliseconds.
    pub fn add(&self, name: &'static str, ms: f64) {
        let mut sums = self.0.borrow_mut();
        let sum = sums.entry(name).or_default();
        sum.0 += 1;
        sum.1 += ms;
    }

    /// The sums so far, the longest first.
    pub fn kernels(&self) -> Vec<KernelTime> {
        let sums = self.0.borrow();
        let kernel = |(&name, &(dispatches, ms))| KernelTime {
            name,
            dispatches,
            ms,
        };
        let mut kernels: Vec<_> = sums.iter().map(kernel).collect();
        kernels.sort_by(|a, b| b.ms.total_cmp(&a.ms));
        kernels
    }
}
