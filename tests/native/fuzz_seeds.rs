//! The seeds of the fuzz targets, and damaged copies of them, through what the targets do.

use std::{fs, path::Path};

use crate::support::{mutate::mutate, random::Random};

#[path = "../../fuzz/parsers.rs"]
mod parsers;

/// Every seed of a target, as it is and damaged in `copies` ways.
fn replay(target: &str, copies: u64, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    let mut paths: Vec<_> = fs::read_dir(folder.join(target))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 2, "{target}: {} seeds", paths.len());
    for path in paths {
        let seed = fs::read(&path).unwrap();
        run(&seed);
        for number in 0..copies {
            run(&mutate(&seed, seed.len(), &mut Random(number)));
        }
    }
}

#[test]
fn gguf() {
    replay("gguf", 300, parsers::gguf);
}

#[test]
fn safetensors() {
    replay("safetensors", 1000, parsers::safetensors);
}

#[test]
fn tokenizer() {
    replay("tokenizer", 100, parsers::tokenizer);
}

#[test]
fn config() {
    replay("config", 1000, parsers::config);
}
