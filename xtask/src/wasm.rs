//! The crate as WebAssembly, with and without relaxed SIMD, and the bindings that call it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use wasm_bindgen_cli_support::Bindgen;

use crate::{Options, bundle::tool};

/// Where the generated bindings go, beside the sources that import them.
const BINDINGS: &str = "www/bindings";

/// The modules that are built: a page takes the first that its browser can compile.
const MODULES: [Module; 2] = [
    Module {
        name: "decant-relaxed",
        bindings: "www/bindings/relaxed",
        features: "+simd128,+relaxed-simd",
    },
    Module {
        name: "decant",
        bindings: BINDINGS,
        features: "+simd128",
    },
];

/// The crate for browsers with certain instructions.
struct Module {
    /// Of the WebAssembly file.
    name: &'static str,
    /// Where its bindings go. They name functions by numbers that differ from module to module.
    bindings: &'static str,
    features: &'static str,
}

/// Compiles the crate; writes the bindings beside the sources and the modules to `dist`.
pub fn build(root: &Path, dist: &Path, options: Options) -> Result<(), String> {
    let [relaxed, plain] = &MODULES;
    // Nobody waits for two builds in the inner loop: there, one module serves under both names.
    let one = options.dev || options.names;
    let build = |module| build_module(root, dist, module, options);
    if !one {
        build(relaxed)?;
    }
    build(plain)?;
    if one {
        let [from, to] =
            [plain, relaxed].map(|module| dist.join(module.name).with_extension("wasm"));
        copy(&from, &to)?;
        let [from, to] =
            [plain, relaxed].map(|module| root.join(module.bindings).join("decant.js"));
        copy(&from, &to)?;
    }
    // One declaration for both, so that their types are the same.
    let types = "export * from \"../decant.js\";\nexport { default } from \"../decant.js\";\n";
    let path = root.join(relaxed.bindings).join("decant.d.ts");
    fs::write(&path, types).map_err(|e| format!("{}: {e}", path.display()))
}

fn build_module(root: &Path, dist: &Path, module: &Module, options: Options) -> Result<(), String> {
    let artifact = compile(root, module, options)?;
    let bindings = root.join(module.bindings);
    bind(&artifact, &bindings, options).map_err(|e| {
        format!("{e}\n(wasm-bindgen and wasm-bindgen-cli-support must be of one version: compare the two Cargo.toml)")
    })?;
    let bound = bindings.join("decant_bg.wasm");
    let output = dist.join(module.name).with_extension("wasm");
    if options.dev {
        return rename(&bound, &output);
    }
    let kept = artifact.with_file_name(module.name);
    optimise(root, &bound, &output, &kept, options)
}

/// Compiles, and answers where the file is.
fn compile(root: &Path, module: &Module, options: Options) -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(root)
        // Either would replace what follows, and the vectors of the kernels would be gone without a word.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env(
            "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS",
            // Kernels name their vectors and say what is inlined: doing more of either only adds to the download.
            format!(
                "-C target-feature={} -C no-vectorize-loops -C llvm-args=-inline-threshold=30",
                module.features
            ),
        )
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
        .map_err(|e| format!("{e:#}"))?;
    ignore_the_dead(&bindings.join("decant.js"))
}

/// Makes a function of an instance that died do nothing when a promise of the browser still calls it after the engine
/// has been started again. The generated one throws, and a page would see an error that nobody can catch.
fn ignore_the_dead(path: &Path) -> Result<(), String> {
    let wrong = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let text = fs::read_to_string(path).map_err(|e| wrong(&e))?;
    let throws = "throw new Error('Cannot invoke closure from previous WASM instance')";
    if !text.contains(throws) {
        return Err(wrong(
            &"functions of an earlier instance are not told apart",
        ));
    }
    fs::write(path, text.replace(throws, "return")).map_err(|e| wrong(&e))
}

/// Runs `wasm-opt`, which takes a minute, unless its last input was the same.
fn optimise(
    root: &Path,
    input: &Path,
    output: &Path,
    kept: &Path,
    options: Options,
) -> Result<(), String> {
    let name = if options.names { "named" } else { "plain" };
    let last_input = kept.with_extension(format!("{name}.bound.wasm"));
    let last_output = kept.with_extension(format!("{name}.small.wasm"));
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
    copy(&last_output, output)
}

/// Copies a file to a folder that may not be there yet.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let folder = to.parent().unwrap_or(to);
    fs::create_dir_all(folder)
        .and_then(|()| fs::copy(from, to))
        .map(drop)
        .map_err(|e| format!("{}: {e}", to.display()))
}

fn rename(from: &Path, to: &Path) -> Result<(), String> {
    fs::rename(from, to).map_err(|e| format!("{}: {e}", to.display()))
}
