//! Tests that need a graphics adapter: every kernel against its operation's reference.

#[path = "../support/mod.rs"]
mod support;

mod ahead;
mod answers;
mod attention;
mod ceilings;
mod chain;
mod device;
mod embed;
mod experts;
mod families;
mod fused;
mod fused_attention;
mod gated_matmul;
mod lfm2;
mod matmul;
mod norm;
mod profile;
mod rotary_store;
mod route;
mod sample;
mod sample_forms;
mod select_rows;
mod short_conv;
mod tape;

use std::{
    cell::RefCell,
    mem::ManuallyDrop,
    ops::{Deref, DerefMut},
};

use decant::exec::gpu::{Forms, Gpu, GpuOptions};

/// An executor for a test, or `None` where `DECANT_GPU=skip` says to do without.
fn gpu(options: GpuOptions) -> Option<Gpu> {
    if std::env::var("DECANT_GPU").is_ok_and(|value| value == "skip") {
        eprintln!("skipped: DECANT_GPU=skip");
        return None;
    }
    match pollster::block_on(Gpu::new(options)) {
        Ok(gpu) => Some(gpu),
        Err(error) => panic!(
            "{error}. A software adapter will do: apt-get install mesa-vulkan-drivers. DECANT_GPU=skip leaves these tests out"
        ),
    }
}

thread_local! {
    /// Executors that nobody uses now, by their options. They are never closed: at the end of a thread, when
    /// what they use of it is gone, it would be too late.
    static IDLE: RefCell<Vec<(String, ManuallyDrop<Gpu>)>> = const { RefCell::new(Vec::new()) };
}

/// An executor that goes back to the others of its test.
struct Shared {
    options: String,
    gpu: Option<Gpu>,
}

/// As [`gpu`], for many small cases: a test's cases share an executor and so the pipelines it has made.
fn shared(options: GpuOptions) -> Option<Shared> {
    let name = format!("{options:?}");
    let idle = IDLE.with_borrow_mut(|idle| {
        let at = idle.iter().position(|(options, _)| *options == name);
        at.map(|at| ManuallyDrop::into_inner(idle.swap_remove(at).1))
    });
    let gpu = match idle {
        Some(gpu) => gpu,
        None => gpu(options)?,
    };
    Some(Shared {
        options: name,
        gpu: Some(gpu),
    })
}

impl Deref for Shared {
    type Target = Gpu;

    fn deref(&self) -> &Gpu {
        self.gpu.as_ref().expect("there until it is dropped")
    }
}

impl DerefMut for Shared {
    fn deref_mut(&mut self) -> &mut Gpu {
        self.gpu.as_mut().expect("there until it is dropped")
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(gpu) = self.gpu.take() {
            IDLE.with_borrow_mut(|idle| idle.push((self.options.clone(), ManuallyDrop::new(gpu))));
        }
    }
}

/// Options that take the kernel of this stem wherever it fits, and force dispatches in two dimensions.
fn only(stem: &'static str) -> GpuOptions {
    GpuOptions {
        forms: Forms::Named(stem),
        group_limit: Some(3),
        ..Default::default()
    }
}
