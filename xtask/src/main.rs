//! The build: Rust to WebAssembly, bindings, one folder that a page can import.
//!
//! ```text
//! cargo run -p xtask -- build          what `npm run build` does: small and fast
//! cargo run -p xtask -- build --dev    quick to build, for the inner loop
//! cargo run -p xtask -- build --names  keeps function names, for `xtask/size.mjs`
//! ```
//!
//! Nothing needs to be installed but Node and the modules of `package.json`: the binding generator is a
//! library here, at the version that `Cargo.lock` gives to the crate as well.

mod bundle;
mod wasm;

use std::{env, path::Path, process::ExitCode};

/// How a build differs from the one that is published.
#[derive(Debug, Clone, Copy, Default)]
struct Options {
    /// Cargo's dev profile, no `wasm-opt`, readable JavaScript.
    dev: bool,
    /// Function names stay in the WebAssembly file.
    names: bool,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some("build") {
        return Err("the task is `build`, with --dev or --names".into());
    }
    let mut options = Options::default();
    for argument in arguments {
        match argument.as_str() {
            "--dev" => options.dev = true,
            "--names" => options.names = true,
            _ => {
                return Err(format!(
                    "{argument} is unknown; there are --dev and --names"
                ));
            }
        }
    }
    // Read when it runs: a program built in another checkout must not build that one.
    let manifest = env::var_os("CARGO_MANIFEST_DIR").ok_or("run it with cargo run -p xtask")?;
    let root = Path::new(&manifest)
        .parent()
        .ok_or("xtask has no parent folder")?;
    let dist = root.join("www/dist");
    if dist.exists() {
        std::fs::remove_dir_all(&dist).map_err(|e| format!("{}: {e}", dist.display()))?;
    }
    std::fs::create_dir_all(&dist).map_err(|e| format!("{}: {e}", dist.display()))?;
    wasm::build(root, &dist, options)?;
    bundle::build(root, &dist, options)
}
