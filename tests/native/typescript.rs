//! TypeScript that is generated from the crate's tables. `UPDATE=1` writes it instead of comparing.

use std::{collections::BTreeSet, fmt::Write, fs, path::Path};

use decant::generation::{FIELDS, fields::Status};

/// `www/config.ts` is the table of options as an interface: the honoured ones only, so that a refused
/// or misspelt option does not compile.
#[test]
fn config_interface_is_the_table() {
    let mut text = String::from(
        "/**\n * Generation options, with Hugging Face's names and meanings.\n *\n \
         * Written by `UPDATE=1 cargo test --test native typescript` from the table in `src/generation/fields`.\n */\n\n\
         import type { CacheImplementation, WatermarkingConfig } from \"./types.js\";\n\n\
         /** Options of a call. One that is not given, or null, falls back to the model's own, then to the default. */\n\
         export interface GenerationConfig {\n",
    );
    for field in FIELDS {
        let default = match field.default {
            "null" => String::new(),
            default => format!(" Default {default}."),
        };
        let doc = sentence(field.doc);
        let typescript = match field.status {
            Status::Honoured(_) => field.typescript.to_owned(),
            Status::Metadata => "unknown".to_owned(),
            Status::Refused(_) => continue,
        };
        let or_null = if typescript == "unknown" {
            ""
        } else {
            " | null"
        };
        writeln!(
            text,
            "  /** {doc}.{default} */\n  {}?: {typescript}{or_null};",
            field.name
        )
        .unwrap();
    }
    text.push_str("}\n");
    compare("www/config.ts", &text);
}

/// The page's union of codes holds those of `ErrorKind`, and `"network"`, which only the page can meet.
#[test]
fn error_codes_are_those_of_the_crate() {
    let quoted = |line: &str, before: &str, after: &str| {
        let code = line.trim().strip_prefix(before)?.strip_suffix(after)?;
        Some(code.trim_matches('"').to_owned())
    };
    let crate_codes = read("src/error.rs")
        .lines()
        .filter_map(|line| quoted(line.split_once("=> ")?.1, "", ","))
        .filter(|code| {
            code.bytes()
                .all(|byte| byte == b'_' || byte.is_ascii_lowercase())
        })
        .chain(["network".to_owned()])
        .collect::<BTreeSet<_>>();
    let page_codes = read("www/errors.ts")
        .lines()
        .filter_map(|line| quoted(line.trim_end_matches(';'), "| ", ""))
        .collect::<BTreeSet<_>>();
    assert!(crate_codes.len() > 10, "{crate_codes:?}");
    assert_eq!(page_codes, crate_codes);
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn compare(path: &str, expected: &str) {
    if std::env::var_os("UPDATE").is_some() {
        fs::write(root(path), expected).unwrap();
    }
    assert!(
        read(path) == expected,
        "{path} is not what the table says: run with UPDATE=1"
    );
}

fn read(path: &str) -> String {
    fs::read_to_string(root(path)).unwrap()
}

fn root(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
