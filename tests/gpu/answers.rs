//! Whole calls on the GPU: Hugging Face's ids for tiny golden models and for the real one.

use std::{fs, path::PathBuf};

use decant::{
    exec::{Executor, Reference, gpu::GpuOptions},
    generation::{Engine, Prompt, RunAhead, Value},
    load::{LoadOptions, Loader},
    ops::CacheType,
    tensor::DType,
};
use pollster::block_on;
use serde_json::Value as Json;

use crate::{
    gpu,
    support::{
        checkpoint::{self, CHECKPOINTS, distance},
        generate, golden, golden_engine,
        model::real_model,
    },
};

/// Allowed between the first logits of an f16 and an f32 cache.
const F16_CACHE: f32 = 0.05;

/// Tokens chosen on the host, and on the device with so many steps running ahead.
const DEPTHS: [RunAhead; 4] = [
    RunAhead::Host,
    RunAhead::Steps(1),
    RunAhead::Steps(2),
    RunAhead::Steps(8),
];

/// Fails unless all calls have the answers of Hugging Face at every depth; returns how many are equal.
fn check_depths(name: &str, engine: &Engine) -> usize {
    let passed = DEPTHS.map(|depth| {
        engine.set_run_ahead(depth);
        generate::check(name, engine)
    });
    assert_eq!(passed, [passed[0]; 4], "{name}");
    passed[0]
}

#[test]
fn tiny_answers_equal_hugging_face() {
    let Some(gpu) = gpu(GpuOptions::default()) else {
        return;
    };
    let engine = generate::engine("llama", Box::new(gpu));
    assert_eq!(generate::check("llama", &engine), 82);
}

/// How many tests share the checkpoints, so that they run side by side.
const SHARES: usize = 4;

fn check_share(share: usize) {
    // The draft has no calls of its own.
    let called = CHECKPOINTS.iter().filter(|name| **name != "llama-draft");
    for name in called.skip(share).step_by(SHARES) {
        let Some(gpu) = gpu(GpuOptions::default()) else {
            return;
        };
        let engine = golden_engine::engine_on(Box::new(gpu), name);
        assert!(check_depths(name, &engine) > 0, "{name}");
    }
}

#[test]
fn checkpoints_answer_as_hugging_face_does_1() {
    check_share(0);
}

#[test]
fn checkpoints_answer_as_hugging_face_does_2() {
    check_share(1);
}

#[test]
fn checkpoints_answer_as_hugging_face_does_3() {
    check_share(2);
}

#[test]
fn checkpoints_answer_as_hugging_face_does_4() {
    check_share(3);
}

#[test]
fn checkpoints_in_parts_have_the_logits_of_hugging_face() {
    for name in ["llama-tied", "llama-bf16"] {
        let Some(gpu) = gpu(GpuOptions::default()) else {
            return;
        };
        let files = checkpoint::files(name, "config.json").sharded(2);
        let options = LoadOptions {
            kv_cache: CacheType::F32,
            ..LoadOptions::default()
        };
        let engine = files.engine(Box::new(gpu), options, 1000).unwrap();
        for prompt in golden::forward(name) {
            let found = block_on(engine.forward_all(&prompt.input_ids)).unwrap();
            let off = distance(&found, &prompt.logits);
            assert!(off < 1.0, "{name}: {off}");
        }
    }
}

#[test]
fn weights_quantised_while_loading_are_those_of_the_reference() {
    let files = checkpoint::wide();
    for quantise in [DType::Q8_0, DType::Q4_0] {
        let Some(gpu) = gpu(GpuOptions::default()) else {
            return;
        };
        let options = LoadOptions {
            kv_cache: CacheType::F32,
            quantise: Some(quantise),
            ..LoadOptions::default()
        };
        let [found, expected] = [
            Box::new(gpu) as Box<dyn Executor>,
            Box::new(Reference::new()),
        ]
        .map(|executor| {
            let engine = files.engine(executor, options, 1000).unwrap();
            block_on(engine.forward_all(&[5, 6, 7, 8])).unwrap()
        });
        let off = distance(&found, &expected);
        assert!(off < 1.0, "{quantise:?}: {off}");
    }
}

#[test]
fn the_real_model_gives_the_ids_of_hugging_face() {
    let Some(engine) = real(CacheType::F32) else {
        return;
    };
    for case in cases() {
        let expected = ids(&case["ids"]);
        let config = serde_json::json!({ "max_new_tokens": expected.len() });
        let prompt = Prompt::Ids(ids(&case["prompt_ids"]));
        let mut generation = engine
            .generate_prompts(&[prompt], &Value::from(&config))
            .unwrap();
        while block_on(generation.next()).unwrap().is_some() {}
        let found = generation.finish().unwrap().sequences.remove(0);
        let agree = found
            .iter()
            .zip(&expected)
            .take_while(|(a, b)| a == b)
            .count();
        assert_eq!(
            found, expected,
            "{}: the first {agree} agree; the gap there is {}",
            case["name"], case["gaps"][agree]
        );
    }
}

#[test]
fn the_real_model_reads_text_as_the_reference_does() {
    let Some(engine) = real(CacheType::F16) else {
        return;
    };
    for case in cases() {
        let text = case["text"].as_str().unwrap();
        assert_eq!(
            engine.tokenizer().encode(text, false).unwrap(),
            ids(&case["prompt_ids"])
        );
    }
}

#[test]
fn an_f16_cache_moves_the_first_logits_by_little() {
    let (Some(exact), Some(rounded)) = (real(CacheType::F32), real(CacheType::F16)) else {
        return;
    };
    let vocabulary = exact.model().vocabulary;
    for case in cases() {
        let prompt = ids(&case["prompt_ids"]);
        let last = |engine: &Engine| {
            let logits = block_on(engine.forward_all(&prompt)).unwrap();
            logits[logits.len() - vocabulary..].to_vec()
        };
        let (exact, rounded) = (last(&exact), last(&rounded));
        let most = exact
            .iter()
            .zip(&rounded)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        assert!(most > 0.0 && most < F16_CACHE, "{}: {most}", case["name"]);
        for top in case["top5_first_step"].as_array().unwrap() {
            let (id, logit) = (
                top[0].as_u64().unwrap() as usize,
                top[1].as_f64().unwrap() as f32,
            );
            assert!(
                (exact[id] - logit).abs() < 2e-3,
                "{}: {} for {id}, not {logit}",
                case["name"],
                exact[id]
            );
        }
    }
}

/// The real model on the GPU, in pieces of 1 MiB.
pub fn real(kv_cache: CacheType) -> Option<Engine> {
    let file = fs::read(real_model()?).unwrap();
    let options = LoadOptions {
        context_length: Some(256),
        kv_cache,
        ..LoadOptions::default()
    };
    let mut loader = Loader::new(
        Box::new(gpu(GpuOptions::default())?),
        options,
        Some(file.len() as u64),
    );
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
    ids.as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap() as u32)
        .collect()
}
