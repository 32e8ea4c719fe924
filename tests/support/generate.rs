//! Hugging Face's answers to whole `generate` calls, on any executor.

use std::fs;

use decant::{
    error::ErrorKind,
    exec::Executor,
    generation::{Engine, Prompt, Value},
    load::{LoadOptions, Loader},
    ops::CacheType,
};
use pollster::block_on;
use serde_json::Value as Json;

use super::golden;

/// What became of the cases of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: usize,
    /// Refused by name, because an option or argument is not supported.
    pub refused: Vec<String>,
    /// Batches in which Hugging Face counts padding as length; a row here is as if it ran alone, and
    /// must only go on as the shorter answer began.
    pub padded: Vec<String>,
    pub failed: Vec<String>,
}

/// An engine of the golden checkpoint `name`, from its GGUF file in pieces of 1000 bytes.
pub fn engine(name: &str, executor: Box<dyn Executor>) -> Engine {
    let file = golden::gguf(name);
    let options = LoadOptions {
        kv_cache: CacheType::F32,
        ..LoadOptions::default()
    };
    let mut loader = Loader::new(executor, options, Some(file.len() as u64));
    for piece in file.chunks(1000) {
        block_on(loader.push(piece)).unwrap();
    }
    block_on(loader.finish()).unwrap()
}

/// Runs every case of `generate/<name>.jsonl` on `engine`.
pub fn run(name: &str, engine: &Engine) -> Counts {
    let path = golden::folder()
        .join("generate")
        .join(format!("{name}.jsonl"));
    let mut counts = Counts::default();
    for line in fs::read_to_string(path).unwrap().lines() {
        let case: Json = serde_json::from_str(line).unwrap();
        let name = case["name"].as_str().unwrap().to_owned();
        if case.get("negative_prompts").is_some() || case.get("assistant").is_some() {
            counts.refused.push(name);
            continue;
        }
        match answer(engine, &case) {
            Err(error) => {
                assert!(is_refusal(&case, &error), "{name}: {error}");
                counts.refused.push(name);
            }
            Ok(found) if found == expected(&case) => counts.passed += 1,
            Ok(found) if case["rows_equal_single_runs"] == false && goes_on(&found, &case) => {
                counts.padded.push(name);
            }
            Ok(found) => counts
                .failed
                .push(format!("{name}: {found:?}, not {:?}", expected(&case))),
        }
    }
    counts
}

type Answer = Vec<(Vec<u32>, String)>;

/// New ids and stop reason of every sequence; limits are called `length`, as in the golden files.
fn answer(engine: &Engine, case: &Json) -> decant::error::Result<Answer> {
    let config = Value::from(&case["config"]);
    let prompts = case["prompts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|ids| Prompt::Ids(numbers(ids)));
    let mut generation = engine.generate_prompts(&prompts.collect::<Vec<_>>(), &config)?;
    while block_on(generation.next())?.is_some() {}
    let output = generation.finish()?;
    let reasons = output
        .stop_reasons
        .iter()
        .map(|reason| match reason.name() {
            "max_new_tokens" | "max_length" | "context_full" => "length".to_owned(),
            other => other.to_owned(),
        });
    Ok(output.sequences.into_iter().zip(reasons).collect())
}

fn expected(case: &Json) -> Answer {
    let sequences = case["expect"]["sequences"]
        .as_array()
        .unwrap()
        .iter()
        .map(numbers);
    let stops = case["expect"]["stop"].as_array().unwrap();
    sequences
        .zip(stops.iter().map(|stop| stop.as_str().unwrap().to_owned()))
        .collect()
}

/// Whether every row begins with what is expected of it.
fn goes_on(found: &Answer, case: &Json) -> bool {
    let rows = found.iter().zip(expected(case));
    rows.into_iter()
        .all(|((ids, _), (expected, _))| ids.starts_with(&expected))
}

/// Whether `error` says that a field of the case is not supported.
fn is_refusal(case: &Json, error: &decant::error::Error) -> bool {
    let ErrorKind::InvalidOption { name } = error.kind() else {
        return false;
    };
    error.to_string().contains("not supported") && case["config"].get(name).is_some()
}

fn numbers(ids: &Json) -> Vec<u32> {
    ids.as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap() as u32)
        .collect()
}
