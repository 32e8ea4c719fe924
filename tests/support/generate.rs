//! Hugging Face's answers to whole `generate` calls, on any executor.

use std::fs;

use decant::{
    error::ErrorKind,
    exec::Executor,
    generation::{Arguments, Engine, Output, Prompt, Value},
    load::{LoadOptions, Loader},
    ops::CacheType,
};
use pollster::block_on;
use serde_json::{Value as Json, json};

use super::{golden, golden_engine};

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

/// Runs every case of `generate/<name>.jsonl` on `engine`. Assistants run on the reference executor.
pub fn run(name: &str, engine: &Engine) -> Counts {
    let mut counts = Counts::default();
    for case in cases(&format!("generate/{name}.jsonl")) {
        let name = case["name"].as_str().unwrap().to_owned();
        let assistant = case
            .get("assistant")
            .map(|name| golden_engine::engine(name.as_str().unwrap()));
        let output = match answer(engine, &case, assistant) {
            Err(error) => {
                assert!(is_refusal(&case, &error), "{name}: {error}");
                counts.refused.push(name);
                continue;
            }
            Ok(output) => output,
        };
        match difference(&case, &output) {
            None => counts.passed += 1,
            Some(_) if case["rows_equal_single_runs"] == false && goes_on(&output, &case) => {
                counts.padded.push(name);
            }
            Some(difference) => counts.failed.push(format!("{name}: {difference}")),
        }
    }
    counts
}

/// The rows of a golden file.
pub fn cases(file: &str) -> Vec<Json> {
    let text = fs::read_to_string(golden::folder().join(file)).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    rows.collect()
}

/// What `engine` answers to a case.
pub fn answer(
    engine: &Engine,
    case: &Json,
    assistant: Option<Engine>,
) -> decant::error::Result<Output> {
    let prompts = |key: &str| {
        let rows = case[key].as_array()?.iter();
        Some(
            rows.map(|ids| Prompt::Ids(numbers(ids)))
                .collect::<Vec<_>>(),
        )
    };
    let arguments = Arguments {
        assistant,
        negative_prompts: prompts("negative_prompts"),
        ..Arguments::default()
    };
    let config = Value::from(&case["config"]);
    let running = engine.generate_with(&prompts("prompts").unwrap(), &config, &arguments);
    block_on(running?.output())
}

/// Where `output` is not what Hugging Face answers, in words.
pub fn difference(case: &Json, output: &Output) -> Option<String> {
    let expect = &case["expect"];
    let differ = |what: &str, found: String, expected: &Json| {
        Some(format!("{what}: {found}, not {expected}"))
    };
    if json!(output.sequences) != expect["sequences"] {
        let found = format!("{:?}", output.sequences);
        return differ("sequences", found, &expect["sequences"]);
    }
    let reasons = output
        .stop_reasons
        .iter()
        .map(|reason| match reason.name() {
            "max_new_tokens" | "max_length" | "context_full" => "length",
            other => other,
        });
    let reasons = json!(reasons.collect::<Vec<_>>());
    if reasons != expect["stop"] {
        return differ("stop", reasons.to_string(), &expect["stop"]);
    }
    if let Some(expected) = expect.get("beam_indices") {
        let found = json!(output.beam_indices);
        if found != *expected {
            return differ("beam_indices", found.to_string(), expected);
        }
    }
    if let Some(expected) = expect.get("sequences_scores") {
        let found = output.sequences_scores.as_ref().unwrap();
        if !near(found, expected) {
            return differ("sequences_scores", format!("{found:?}"), expected);
        }
    }
    if let Some(scores) = &output.scores
        && let Some(steps) = expect.get("scores")
    {
        for (step, rows) in steps.as_array().unwrap().iter().enumerate() {
            for (row, expected) in rows.as_array().unwrap().iter().enumerate() {
                if !near(&scores[row][step], expected) {
                    let found = format!("{:?}", scores[row][step]);
                    return differ(&format!("scores[{step}][{row}]"), found, expected);
                }
            }
        }
    }
    None
}

/// Whether all numbers are within 1e-3; infinities are the same.
fn near(found: &[f32], expected: &Json) -> bool {
    let expected = expected.as_array().unwrap();
    let near = |(found, expected): (&f32, &Json)| match expected.as_str() {
        Some(infinite) => found.to_string() == infinite,
        None => (f64::from(*found) - expected.as_f64().unwrap()).abs() < 1e-3,
    };
    found.len() == expected.len() && found.iter().zip(expected).all(near)
}

/// Whether every row begins with what is expected of it.
fn goes_on(output: &Output, case: &Json) -> bool {
    let expected = case["expect"]["sequences"].as_array().unwrap();
    let mut rows = output.sequences.iter().zip(expected);
    rows.all(|(ids, expected)| ids.starts_with(&numbers(expected)))
}

/// Whether `error` names an option or argument of the case.
fn is_refusal(case: &Json, error: &decant::error::Error) -> bool {
    let ErrorKind::InvalidOption { name } = error.kind() else {
        return false;
    };
    case["config"].get(name).is_some()
}

fn numbers(ids: &Json) -> Vec<u32> {
    let ids = ids.as_array().unwrap().iter();
    ids.map(|id| id.as_u64().unwrap() as u32).collect()
}
