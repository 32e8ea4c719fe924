//! Hugging Face checkpoints: the model that their files describe, in either spelling.

use decant::{exec::Reference, load::LoadOptions, ops::CacheType};

use crate::support::{
    checkpoint::{self, Files, distance},
    generate, golden,
};

const SPELLINGS: [&str; 2] = ["config.json", "config.legacy.json"];

fn options() -> LoadOptions {
    LoadOptions {
        kv_cache: CacheType::F32,
        ..LoadOptions::default()
    }
}

#[test]
fn the_comparison_notices_one_wrong_value() {
    let prompt = &golden::forward("llama")[0];
    let mut wrong = prompt.hidden[1].clone();
    wrong[7] += 0.01;
    assert!(distance(&wrong, &prompt.hidden[1]) > 1.0);
}

#[test]
fn answers_equal_hugging_face() {
    for (piece, spelling) in [(7, SPELLINGS[0]), (100_000, SPELLINGS[1])] {
        let files = checkpoint::files("llama", spelling);
        let engine = files.engine(Box::new(Reference::new()), options(), piece);
        let counts = generate::run("llama", &engine.unwrap());
        assert_eq!(counts.failed, [""; 0]);
        assert!(counts.passed >= 19, "{counts:?}");
    }
}

/// The checkpoint with its tensors dealt out to three files.
fn sharded(name: &str) -> Files {
    checkpoint::files(name, "config.json").sharded(3)
}

#[test]
fn shards_give_the_same_answers() {
    let files = sharded("llama-tied");
    assert_eq!(files.weights.len(), 3);
    let engine = files.engine(Box::new(Reference::new()), options(), 1000);
    let counts = generate::run("llama-tied", &engine.unwrap());
    let whole = checkpoint::files("llama-tied", "config.json");
    let engine = whole.engine(Box::new(Reference::new()), options(), 1000);
    assert_eq!(counts, generate::run("llama-tied", &engine.unwrap()));
    assert_eq!(counts.failed, [""; 0]);
    assert!(counts.passed > 0);
}
