//! Whole calls of a loaded model: what a page would see.

use std::slice;

use decant::generation::{Engine, Output, Prompt, Value};
use pollster::block_on;
use serde_json::json;

use super::report::Report;
use crate::Outcome;

/// What is measured.
pub struct Calls {
    /// Tokens of the prompt.
    pub prefill: usize,
    /// Tokens to make.
    pub decode: usize,
    /// Sequences together.
    pub batch: usize,
}

/// Runs of which the best counts, after one that does not.
const RUNS: usize = 3;

/// Decoding and reading a prompt, alone and together, and prompt lookup on a text that repeats itself.
pub fn answers(report: &mut Report, engine: &Engine, calls: &Calls) -> Outcome<()> {
    report.section(
        "calls",
        "generate, as a page sees it; greedy, the best of three",
    );
    // Any text will do: the work does not depend on it. Ids from the middle of the vocabulary, each prompt
    // with another first one, so that nothing of the last is in the cache.
    let middle = engine.model().vocabulary as u32 / 2;
    let mut first = 0;
    let mut ids = |length: usize| -> Prompt {
        first += 1;
        Prompt::Ids(
            (0..length as u32)
                .map(|i| middle + (first + i) % 1000)
                .collect(),
        )
    };
    let greedy = json!({ "max_new_tokens": calls.decode + 1, "eos_token_id": [] });
    let mut decode = 0.0f64;
    let mut best: Option<Output> = None;
    for _ in 0..=RUNS {
        let output = run(engine, &[ids(calls.prefill)], &greedy)?;
        let rate = output.timings.decode_tokens_per_second().unwrap_or(0.0);
        if rate > decode {
            decode = rate;
            best = Some(output);
        }
    }
    let timings = best.ok_or("nothing was made")?.timings;
    let text = format!(
        "prefill {:.2}/s, decode {decode:.2}/s; {} dispatches and {} submits in {} passes, {} bytes up, {} back, {} steps ahead, {} wasted",
        timings.prefill_tokens_per_second().unwrap_or(0.0),
        timings.dispatches,
        timings.submits,
        timings.forwards,
        timings.bytes_uploaded,
        timings.bytes_read,
        timings.run_ahead,
        timings.steps_wasted,
    );
    let figures = json!({
        "prefill_tokens_per_second": timings.prefill_tokens_per_second(),
        "decode_tokens_per_second": decode,
        "dispatches": timings.dispatches,
        "submits": timings.submits,
        "forwards": timings.forwards,
        "bytes_uploaded": timings.bytes_uploaded,
        "bytes_read": timings.bytes_read,
        "run_ahead": timings.run_ahead,
        "steps_wasted": timings.steps_wasted,
    });
    let what = json!({ "call": "greedy", "prompt": calls.prefill, "tokens": calls.decode });
    report.row(
        what,
        (timings.prefill_ms + timings.decode_ms) / 1e3,
        &text,
        figures,
    );

    let sampled = json!({ "max_new_tokens": calls.decode + 1, "eos_token_id": [], "do_sample": true,
        "seed": 1, "temperature": 0.7, "top_k": 40, "top_p": 0.9, "repetition_penalty": 1.1 });
    let output = run(engine, &[ids(calls.prefill)], &sampled)?;
    let seconds = output.timings.decode_ms / 1e3;
    report.rate(
        json!({ "call": "sampled" }),
        seconds,
        output.timings.decode_tokens,
    );

    if calls.batch > 1 {
        let prompts: Vec<_> = (0..calls.batch).map(|_| ids(8)).collect();
        let mut rate = 0.0f64;
        for _ in 0..2 {
            let timings = run(engine, &prompts, &greedy)?.timings;
            rate = rate.max(timings.decode_tokens_per_second().unwrap_or(0.0));
        }
        let mut alone = 0.0f64;
        for _ in 0..2 {
            let timings = run(engine, &[ids(8)], &greedy)?.timings;
            alone = alone.max(timings.decode_tokens_per_second().unwrap_or(0.0));
        }
        let tokens = calls.batch * calls.decode;
        let what = json!({ "call": "batch", "batch": calls.batch });
        report.rate(what, tokens as f64 / rate, tokens);
        let what = json!({ "call": "batch", "batches": [calls.batch, 1], "target": 3.0 });
        report.figure(what, "rate_ratio", rate / alone);
    }
    lookup(report, engine)
}

/// A text that the model goes on repeating: drafts come true.
fn lookup(report: &mut Report, engine: &Engine) -> Outcome<()> {
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(8);
    let prompt = Prompt::Text(text);
    let mut rates = Vec::new();
    let mut answers = Vec::new();
    let plain = json!({ "max_new_tokens": 48, "eos_token_id": [] });
    let drafted =
        json!({ "max_new_tokens": 48, "eos_token_id": [], "prompt_lookup_num_tokens": 7 });
    for config in [plain, drafted] {
        let mut rate = 0.0f64;
        for _ in 0..2 {
            let output = run(engine, slice::from_ref(&prompt), &config)?;
            // Drafts take a step for several tokens, so what counts are tokens of the answer.
            let tokens = output.usage.completion_tokens as f64 - 1.0;
            rate = rate.max(tokens * 1e3 / output.timings.decode_ms);
            answers.push(output.sequences);
        }
        rates.push(rate);
    }
    if answers.iter().any(|answer| *answer != answers[0]) {
        return Err("prompt lookup has changed the answer".into());
    }
    let what = json!({ "call": "prompt lookup", "against": "greedy", "target": 1.5 });
    report.figure(what, "rate_ratio", rates[1] / rates[0]);
    Ok(())
}

fn run(engine: &Engine, prompts: &[Prompt], config: &serde_json::Value) -> Outcome<Output> {
    let mut generation = engine.generate_prompts(prompts, &Value::from(config))?;
    Ok(block_on(generation.output())?)
}
