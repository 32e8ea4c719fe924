//! Hugging Face checkpoints: the model that their files describe, in either spelling.

use decant::{
    exec::{Executor, Reference, TapeId},
    load::LoadOptions,
    ops::{BufferId, CacheType},
};
use pollster::block_on;

use crate::support::{
    checkpoint::{self, Files, distance, step},
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
fn logits_and_every_layer_equal_hugging_face() {
    for name in ["llama", "llama-draft", "llama-tied", "llama-bf16"] {
        for spelling in SPELLINGS {
            let model = checkpoint::files(name, spelling).model().unwrap();
            for prompt in golden::forward(name) {
                let mut executor = Reference::new();
                let rows = prompt.input_ids.len();
                let tapes = model.layer_tapes(rows);
                let whole = tapes.len() - 1;
                let hidden = tapes[0].buffers.iter().position(|b| b.name == "hidden");
                let hidden = BufferId(hidden.unwrap());
                model.prepare(&mut executor, tapes);
                let step = step(&prompt.input_ids, 0, rows);
                assert_eq!(prompt.hidden.len(), whole);
                for (layer, expected) in prompt.hidden.iter().enumerate() {
                    block_on(executor.forward(TapeId(layer), &step)).unwrap();
                    let found = block_on(executor.read(TapeId(layer), hidden, rows)).unwrap();
                    let off = distance(&found, expected);
                    assert!(off < 1.0, "{name} {spelling}, layer {layer}: {off}");
                }
                let found = block_on(executor.forward(TapeId(whole), &step)).unwrap();
                let off = distance(&found, &prompt.logits);
                assert!(off < 1.0, "{name} {spelling}: {off}");
            }
        }
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
