//! Hugging Face's answers to whole `generate` calls, on any executor.

use std::fs;

use decant::{
    exec::Executor,
    generation::{Arguments, Engine, Output, Prompt, Value},
    load::{LoadOptions, Loader},
    ops::CacheType,
};
use pollster::block_on;
use serde_json::{Value as Json, json};

use super::{golden, golden_engine};

/// Batches in which Hugging Face counts padding as length; a row here is as if it ran alone, and must only go
/// on as the shorter answer began.
const PADDED: [&str; 1] = ["batch with max_length"];

/// What became of the cases of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: usize,
    /// Those of [`PADDED`].
    pub padded: Vec<String>,
    pub failed: Vec<String>,
}

/// What became of one case.
enum Verdict {
    Equal,
    Padded,
    Different(String),
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

/// Fails unless every case of `generate/<name>.jsonl` has the answer of Hugging Face on `engine`, or what
/// [`PADDED`] allows; returns how many are equal.
pub fn check(name: &str, engine: &Engine) -> usize {
    let counts = run(name, engine);
    assert_eq!(counts.failed, [""; 0], "{name}");
    let cases = cases(&format!("generate/{name}.jsonl"));
    let names = cases.iter().map(|case| case["name"].as_str().unwrap());
    let padded: Vec<_> = names.filter(|name| PADDED.contains(name)).collect();
    assert_eq!(counts.padded, padded, "{name}");
    assert_eq!(counts.passed + padded.len(), cases.len(), "{name}");
    counts.passed
}

/// Runs every case of `generate/<name>.jsonl` on `engine`. Assistants run on the reference executor.
pub fn run(name: &str, engine: &Engine) -> Counts {
    let mut counts = Counts::default();
    for case in cases(&format!("generate/{name}.jsonl")) {
        let name = case["name"].as_str().unwrap().to_owned();
        // As it is, so that tokens are chosen where they can be, and to see the scores, where they are known.
        let verdicts = [Some(case.clone()), with_scores(&case)];
        let mut verdicts = verdicts.iter().flatten().map(|case| verdict(engine, case));
        match verdicts.find(|verdict| !matches!(verdict, Verdict::Equal)) {
            None | Some(Verdict::Equal) => counts.passed += 1,
            Some(Verdict::Padded) => counts.padded.push(name),
            Some(Verdict::Different(why)) => counts.failed.push(format!("{name}: {why}")),
        }
    }
    counts
}

fn verdict(engine: &Engine, case: &Json) -> Verdict {
    let assistant = case.get("assistant").and_then(Json::as_str);
    let output = match answer(engine, case, assistant.map(golden_engine::engine)) {
        Err(error) => return Verdict::Different(error.to_string()),
        Ok(output) => output,
    };
    match difference(case, &output) {
        None => Verdict::Equal,
        Some(_) if case["rows_equal_single_runs"] == false && goes_on(&output, case) => {
            Verdict::Padded
        }
        Some(difference) => Verdict::Different(difference),
    }
}

/// The case with `output_scores`, if its scores are known and it does not ask for them.
pub fn with_scores(case: &Json) -> Option<Json> {
    let asks = case["config"]["output_scores"] == true;
    let known = case["expect"].get("scores").is_some();
    let mut case = case.clone();
    case["config"]["output_scores"] = json!(true);
    (known && !asks).then_some(case)
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
    match case["config"]["output_scores"] == true {
        true => scores_difference(&expect["scores"], output),
        false => None,
    }
}

/// Where the scores of the first steps are not those of Hugging Face, in words.
fn scores_difference(expected: &Json, output: &Output) -> Option<String> {
    let Some(scores) = &output.scores else {
        return Some(format!("no scores, not {expected}"));
    };
    let steps = expected.as_array().unwrap();
    // In beam search rows are beams, and all of them go on until the last answer is found.
    let lengths = output.sequences.iter().map(Vec::len);
    let longest = lengths.clone().max().unwrap_or(0);
    let complete = match output.sequences_scores {
        None => scores.iter().map(Vec::len).eq(lengths),
        Some(_) => scores.iter().all(|row| row.len() >= longest),
    };
    if !complete {
        let rows: Vec<usize> = scores.iter().map(Vec::len).collect();
        return Some(format!("rows of {rows:?} scores"));
    }
    for (step, rows) in steps.iter().enumerate() {
        let rows = rows.as_array().unwrap();
        if rows.len() != scores.len() {
            return Some(format!(
                "{} rows of scores, not {}",
                scores.len(),
                rows.len()
            ));
        }
        for (row, expected) in rows.iter().enumerate() {
            let found = &scores[row][step];
            if !near(found, expected) {
                let expected = expected.as_array().unwrap();
                let mut pairs = found.iter().zip(expected);
                let at = pairs.position(|(found, expected)| !is_near(*found, expected));
                let count = found.len().min(expected.len());
                let id = at.unwrap_or(count);
                let (found, expected) = (found.get(id), expected.get(id));
                return Some(format!(
                    "scores[{step}][{row}][{id}]: {found:?}, not {expected:?}"
                ));
            }
        }
    }
    None
}

/// Whether all numbers are within 1e-3; infinities are the same.
fn near(found: &[f32], expected: &Json) -> bool {
    let expected = expected.as_array().unwrap();
    let mut pairs = found.iter().zip(expected);
    found.len() == expected.len() && pairs.all(|(found, expected)| is_near(*found, expected))
}

/// As [`near`]; of f32, as the least of them has more digits than the golden files give.
fn is_near(found: f32, expected: &Json) -> bool {
    match expected.as_str() {
        Some(infinite) => found.to_string() == infinite,
        None => {
            let expected = expected.as_f64().unwrap() as f32;
            found == expected || (found - expected).abs() < 1e-3
        }
    }
}

/// Whether every row begins with what is expected of it.
fn goes_on(output: &Output, case: &Json) -> bool {
    let expected = case["expect"]["sequences"].as_array().unwrap();
    let mut rows = output.sequences.iter().zip(expected);
    rows.all(|(ids, expected)| ids.starts_with(&numbers(expected)))
}

fn numbers(ids: &Json) -> Vec<u32> {
    let ids = ids.as_array().unwrap().iter();
    ids.map(|id| id.as_u64().unwrap() as u32).collect()
}
