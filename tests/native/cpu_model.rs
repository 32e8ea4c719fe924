//! Whole calls on the CPU executor: Hugging Face's ids for tiny golden models and for the real one.

use std::{fs, path::PathBuf};

use decant::{
    exec::{Activations, Cpu},
    generation::{Engine, Prompt, Value},
    load::{LoadOptions, Loader},
    ops::CacheType,
};
use pollster::block_on;
use serde_json::Value as Json;

use crate::support::{
    checkpoint::{self, CHECKPOINTS},
    generate,
    model::real_model,
};

/// Ids of an answer that are compared here, where the code is not made for speed; `tests/web/cpu.mjs` compares
/// all.
const TOKENS: usize = 3;

#[test]
fn tiny_answers_equal_hugging_face() {
    let engine = generate::engine("llama", Box::new(Cpu::new(Activations::F32)));
    assert_eq!(generate::check("llama", &engine), 82);
}

#[test]
fn every_architecture_equals_hugging_face() {
    let faults = CHECKPOINTS.iter().flat_map(|name| {
        let model = checkpoint::files(name, "config.json").model().unwrap();
        model.compare(name, || Box::new(Cpu::new(Activations::F32)))
    });
    assert_eq!(faults.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn the_real_model_gives_the_ids_of_hugging_face() {
    let Some(engine) = real(Activations::Q16, CacheType::F32) else {
        return;
    };
    for case in &cases()[..1] {
        let found = answer(&engine, case);
        let expected = &ids(&case["ids"])[..TOKENS];
        let agree = agreeing(&found, expected);
        assert_eq!(
            found, expected,
            "{}: the first {agree} agree; the gap there is {}",
            case["name"], case["gaps"][agree]
        );
    }
}

fn answer(engine: &Engine, case: &Json) -> Vec<u32> {
    let config = serde_json::json!({ "max_new_tokens": TOKENS });
    let prompt = Prompt::Ids(ids(&case["prompt_ids"]));
    let mut generation = engine
        .generate_prompts(&[prompt], &Value::from(&config))
        .unwrap();
    while block_on(generation.next()).unwrap().is_some() {}
    generation.finish().unwrap().sequences.remove(0)
}

fn agreeing(found: &[u32], expected: &[u32]) -> usize {
    found
        .iter()
        .zip(expected)
        .take_while(|(a, b)| a == b)
        .count()
}

fn real(activations: Activations, kv_cache: CacheType) -> Option<Engine> {
    let file = fs::read(real_model()?).unwrap();
    let options = LoadOptions {
        context_length: Some(256),
        kv_cache,
        ..LoadOptions::default()
    };
    let cpu = Box::new(Cpu::new(activations));
    let mut loader = Loader::new(cpu, options, Some(file.len() as u64));
    for piece in file.chunks(1 << 20) {
        block_on(loader.push(piece)).unwrap();
    }
    Some(block_on(loader.finish()).unwrap())
}

fn cases() -> Vec<Json> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/smollm2.json");
    let file: Json = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    file["cases"].as_array().unwrap().clone()
}

fn ids(ids: &Json) -> Vec<u32> {
    let ids = ids.as_array().unwrap().iter();
    ids.map(|id| id.as_u64().unwrap() as u32).collect()
}
