//! TypeScript as modules and declarations, through the tools of `package.json`.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::Options;

/// Bundles the package and writes its declarations to `dist`, then the demo page if there is one.
pub fn build(root: &Path, dist: &Path, options: Options) -> Result<(), String> {
    esbuild(
        root,
        dist,
        &["www/index.ts", "www/worker.ts", "www/thread.ts"],
        &[],
        options,
    )?;
    tool(
        root,
        "tsc",
        &["--project", "tsconfig.build.json"].map(OsStr::new),
    )?;
    keep_reachable(dist)?;
    demo(root, dist, options)
}

/// Runs a program of `node_modules`.
pub fn tool(root: &Path, program: &str, arguments: &[&OsStr]) -> Result<(), String> {
    let path = root.join("node_modules/.bin").join(program);
    if !path.exists() {
        return Err(format!("{program} is missing: run npm ci"));
    }
    let status = Command::new(path)
        .current_dir(root)
        .args(arguments)
        .status()
        .map_err(|e| format!("{program}: {e}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("{program} failed"))
}

fn esbuild(
    root: &Path,
    out: &Path,
    entries: &[&str],
    more: &[&str],
    options: Options,
) -> Result<(), String> {
    let out = format!("--outdir={}", out.display());
    let mut arguments = entries.to_vec();
    arguments.extend(["--bundle", "--format=esm", "--splitting", "--target=es2022"]);
    arguments.extend(["--log-level=warning", &out]);
    arguments.extend(more);
    if !options.dev {
        arguments.push("--minify");
    }
    let arguments: Vec<&OsStr> = arguments.into_iter().map(OsStr::new).collect();
    tool(root, "esbuild", &arguments)
}

/// Removes declarations that the public ones do not lead to.
fn keep_reachable(dist: &Path) -> Result<(), String> {
    let mut wanted = BTreeSet::new();
    let mut next = vec![dist.join("index.d.ts")];
    while let Some(path) = next.pop() {
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        // Declarations import with `from "./name.js"` only; there are no bare or dynamic imports.
        next.extend(
            text.split("from \"./")
                .skip(1)
                .filter_map(|rest| rest.split_once(".js\"").map(|(name, _)| name))
                .map(|name| path.with_file_name(format!("{name}.d.ts")))
                .filter(|path| !wanted.contains(path)),
        );
        wanted.insert(path);
    }
    let mut folders = vec![dist.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder)? {
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(".d.ts") && !wanted.contains(&path) {
                fs::remove_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            }
        }
    }
    // Folders that held nothing else; a folder with files in it refuses.
    for path in entries(dist)?.into_iter().filter(|path| path.is_dir()) {
        let _ = fs::remove_dir(path);
    }
    Ok(())
}

/// The demo page, beside the package. It imports the package by its name, as any page would; here that is
/// the module one folder up.
fn demo(root: &Path, dist: &Path, options: Options) -> Result<(), String> {
    let source = root.join("www/demo");
    if !source.join("main.ts").exists() {
        return Ok(());
    }
    let out = dist.join("demo");
    let package = ["--alias:decant=../index.js", "--external:../index.js"];
    let entries = ["www/demo/main.ts", "www/demo/main.css"];
    esbuild(root, &out, &entries, &package, options)?;
    let page = out.join("index.html");
    fs::copy(source.join("index.html"), &page)
        .map(drop)
        .map_err(|e| format!("{}: {e}", page.display()))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(|e| format!("{}: {e}", folder.display()))
}
