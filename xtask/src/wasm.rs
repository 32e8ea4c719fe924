//! The crate as `decant.wasm` and the bindings that call it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use wasm_bindgen_cli_support::Bindgen;

use crate::{Options, bundle::tool};

/// Where the generated bindings go, beside the sources that import them.
const BINDINGS: &str = "www/bindings";

/// Compiles the crate; writes the bindings to `www/bindings` and `decant.wasm` to `dist`.
pub fn build(root: &Path, dist: &Path, options: Options) -> Result<(), String> {
    let artifact = compile(root, options)?;
    let bindings = root.join(BINDINGS);
    bind(&artifact, &bindings, options).map_err(|e| {
        format!("{e}\n(wasm-bindgen and wasm-bindgen-cli-support must be of one version: compare the two Cargo.toml)")
    })?;
    let bound = bindings.join("decant_bg.wasm");
    let output = dist.join("decant.wasm");
    if options.dev {
        return rename(&bound, &output);
    }
    optimise(root, &bound, &output, &artifact, options)
}

/// Compiles, and answers where the file is.
fn compile(root: &Path, options: Options) -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(root)
        .args(["rustc", "--package", "decant", "--lib"])
        .args([
            "--crate-type",
            "cdylib",
            "--target",
            "wasm32-unknown-unknown",
        ])
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit());
    if !options.dev {
        cargo.arg("--release");
    }
    let output = cargo.output().map_err(|e| format!("cargo: {e}"))?;
    if !output.status.success() {
        return Err("the crate does not compile".into());
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| {
            message["filenames"]
                .as_array()?
                .iter()
                .filter_map(|name| name.as_str())
                .find(|name| name.ends_with("decant.wasm"))
                .map(PathBuf::from)
        })
        .next_back()
        .ok_or_else(|| "cargo names no decant.wasm".into())
}

fn bind(artifact: &Path, bindings: &Path, options: Options) -> Result<(), String> {
    Bindgen::new()
        .input_path(artifact)
        .out_name("decant")
        .web(true)
        .and_then(|bindgen| {
            bindgen
                .typescript(true)
                // The caller says where the file is, in a form that bundlers understand.
                .omit_default_module_path(true)
                // After a panic a page may start the engine again.
                .reset_state_function(true)
                .remove_name_section(!options.names)
                .remove_producers_section(true)
                .generate(bindings)
        })
        .map_err(|e| format!("{e:#}"))
}

/// Runs `wasm-opt`, which takes a minute, unless its last input was the same.
fn optimise(
    root: &Path,
    input: &Path,
    output: &Path,
    artifact: &Path,
    options: Options,
) -> Result<(), String> {
    let name = if options.names { "named" } else { "plain" };
    let last_input = artifact.with_file_name(format!("decant.{name}.bound.wasm"));
    let last_output = artifact.with_file_name(format!("decant.{name}.small.wasm"));
    let fresh = last_output.exists() && fs::read(input).ok() == fs::read(&last_input).ok();
    if !fresh {
        let mut arguments = vec!["-Oz".as_ref(), input.as_os_str(), "-o".as_ref()];
        arguments.push(last_output.as_os_str());
        if options.names {
            arguments.push("--debuginfo".as_ref());
        }
        tool(root, "wasm-opt", &arguments)?;
        fs::copy(input, &last_input).map_err(|e| format!("{}: {e}", last_input.display()))?;
    }
    fs::remove_file(input).map_err(|e| format!("{}: {e}", input.display()))?;
    fs::copy(&last_output, output)
        .map(drop)
        .map_err(|e| format!("{}: {e}", output.display()))
}

fn rename(from: &Path, to: &Path) -> Result<(), String> {
    fs::rename(from, to).map_err(|e| format!("{}: {e}", to.display()))
}
