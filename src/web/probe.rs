//! What only tests call. The package's own modules do not import these, so they are no part of its face.

use serde_json::{Value, json};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::exec::gpu;

/// Panics in the middle of the call.
#[wasm_bindgen]
pub fn probe_panic() {
    panic!("on purpose");
}

/// Panics in a task of its own, after the call.
#[wasm_bindgen]
pub fn probe_panic_later() {
    wasm_bindgen_futures::spawn_local(async { probe_panic() });
}

/// Every kernel that can run, as JSON: name, source, entry point, names of overrides.
#[wasm_bindgen]
pub fn probe_kernels() -> String {
    let kernels = gpu::kernels().map(|kernel| {
        json!({
            "name": kernel.name,
            "source": kernel.source(),
            "entry": gpu::ENTRY,
            "overrides": kernel.overrides,
        })
    });
    kernels.collect::<Value>().to_string()
}
