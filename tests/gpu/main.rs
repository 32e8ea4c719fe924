//! Tests that need a graphics adapter: every kernel against its operation's reference.

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod attention;
mod chain;
mod device;
mod embed;
mod experts;
mod families;
mod fused;
mod fused_attention;
mod gated_matmul;
mod matmul;
mod norm;
mod rotary_store;
mod route;
mod sample;
mod select_rows;
mod tape;

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

/// Options that take the kernel of this stem wherever it fits, and force dispatches in two dimensions.
fn only(stem: &'static str) -> GpuOptions {
    GpuOptions {
        forms: Forms::Named(stem),
        group_limit: Some(61),
        ..Default::default()
    }
}
