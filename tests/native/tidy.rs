//! The rules of the house that a program can check: who may use whom, file lengths, twins.

use std::{collections::BTreeSet, fs, path::Path};

/// Which modules each module may use. `error` is open to all.
///
/// Beyond the first plan: `generation` fills [`Step`]s of the tape and names cache types of `ops`;
/// `load` joins the rooms that turn a file into an engine, for `web` and the command line alike.
const LAYERS: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("tensor", &[]),
    ("weights", &["tensor"]),
    ("tokenizer", &["tensor"]),
    ("ops", &["tensor"]),
    ("tape", &["ops", "tensor"]),
    ("model", &["tape", "ops", "weights", "tensor"]),
    ("exec", &["tape", "ops", "tensor"]),
    (
        "generation",
        &["exec", "model", "tokenizer", "tape", "ops", "tensor"],
    ),
    (
        "load",
        &[
            "generation",
            "exec",
            "model",
            "tokenizer",
            "weights",
            "ops",
            "tensor",
        ],
    ),
    (
        "web",
        &[
            "load",
            "generation",
            "exec",
            "model",
            "tokenizer",
            "weights",
            "tape",
            "ops",
            "tensor",
        ],
    ),
];

/// Names that only one place may know.
const OWNED: &[(&str, &[&str])] = &[
    ("wgpu::", &["src/exec/gpu/"]),
    ("JsValue", &["src/web/"]),
    ("wasm_bindgen", &["src/web/", "src/lib.rs"]),
    ("js_sys", &["src/web/"]),
];

/// Files that may be longer than 400 lines, each with its reason.
const LONG: &[(&str, &str)] = &[];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &str, extensions: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for path in entries.map(|entry| entry.unwrap().path()) {
            let skip = ["node_modules", "fixtures", "dist", "target"];
            if path.is_dir() && !skip.iter().any(|name| path.ends_with(name)) {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|e| extensions.iter().any(|&x| e == x))
            {
                found.push((relative(&path), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap()
        .to_str()
        .unwrap()
        .replace('\\', "/")
}

/// The code of a file, without comment lines.
fn code(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The first segments of every `crate::` path in `code`.
fn used_modules(code: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let (mut depth, mut start) = (0, true);
            let mut name = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => start = true,
                    c if depth == 0 && start && (c.is_alphanumeric() || c == '_') => name.push(c),
                    _ if !name.is_empty() => start = false,
                    _ => {}
                }
                if (!start || c == ',' || c == '}') && !name.is_empty() {
                    used.insert(std::mem::take(&mut name));
                }
            }
            if !name.is_empty() {
                used.insert(name);
            }
        } else {
            used.insert(
                rest.chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_')
                    .collect(),
            );
        }
    }
    used
}

fn layer_faults(path: &str, text: &str) -> Vec<String> {
    let module = path
        .trim_start_matches("src/")
        .trim_end_matches(".rs")
        .split('/')
        .next()
        .unwrap();
    if matches!(module, "lib" | "bin") {
        return Vec::new();
    }
    let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == module) else {
        return vec![format!("{path}: module {module} is not in the table")];
    };
    let used = used_modules(&code(text));
    let forbidden = used
        .iter()
        .filter(|u| *u != "error" && *u != module && !allowed.contains(&u.as_str()));
    forbidden
        .map(|u| format!("{path}: {module} must not use {u}"))
        .collect()
}

#[test]
fn modules_use_only_what_the_table_allows() {
    let faults: Vec<_> = files("src", &["rs"])
        .iter()
        .flat_map(|(p, t)| layer_faults(p, t))
        .collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn the_layer_check_notices_a_forbidden_path() {
    let bad = "use crate::{\n    error::{Error, Result},\n    exec::{Executor, TapeId},\n    tensor::DType,\n};\n";
    assert_eq!(
        layer_faults("src/ops/x.rs", bad),
        ["src/ops/x.rs: ops must not use exec"]
    );
    assert_eq!(
        layer_faults("src/ops/x.rs", "fn f(e: crate::model::Graph) {}").len(),
        1
    );
    assert_eq!(
        layer_faults("src/ops/x.rs", "use crate::{tensor::DType, error::Result};"),
        [""; 0]
    );
    assert_eq!(layer_faults("src/new.rs", "").len(), 1);
}

#[test]
fn each_edge_has_one_owner() {
    let faults = files("src", &["rs"]).into_iter().flat_map(|(path, text)| {
        let code = code(&text);
        let foreign = OWNED.iter().filter(|(name, owners)| {
            code.contains(name) && !owners.iter().any(|owner| path.starts_with(owner))
        });
        foreign
            .map(|(name, _)| format!("{path} names {name}"))
            .collect::<Vec<_>>()
    });
    assert_eq!(faults.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn files_stay_short() {
    let folders = ["src", "www", "shaders", "tests", "benches", "xtask"];
    let all = folders
        .iter()
        .flat_map(|folder| files(folder, &["rs", "ts", "mjs", "css", "html", "wgsl"]));
    let long = all.filter(|(path, text)| {
        text.lines().count() > 400 && !LONG.iter().any(|(name, _)| name == path)
    });
    let long: Vec<_> = long
        .map(|(path, text)| format!("{path}: {} lines", text.lines().count()))
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn every_module_opens_with_its_doc() {
    let silent = files("src", &["rs"])
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//!"));
    assert_eq!(silent.map(|(path, _)| path).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn every_operation_and_every_shader_has_a_test_of_its_stem() {
    let tests: Vec<_> = files("tests/gpu", &["rs"])
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    let stem = |path: &str| {
        Path::new(path)
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    let operations: BTreeSet<_> = files("src/ops", &["rs"])
        .iter()
        .map(|(path, _)| stem(path))
        .collect();
    for operation in operations.iter().filter(|name| *name != "mod") {
        assert!(
            tests.contains(&format!("tests/gpu/{operation}.rs")),
            "no tests/gpu/{operation}.rs"
        );
    }
    for (path, _) in files("shaders", &["wgsl"]) {
        if path.starts_with("shaders/lib/") {
            continue;
        }
        let name = stem(&path);
        // Choosing tokens is no operation of a tape; its reference is the host's chain of processors. What
        // measures an adapter checks its own results.
        let tested = name.starts_with("sample")
            || (name.starts_with("measure") && tests.contains(&"tests/gpu/ceilings.rs".into()))
            || operations
                .iter()
                .any(|op| op != "mod" && name.starts_with(op.as_str()));
        assert!(tested, "{path} begins with the stem of no operation");
    }
}
