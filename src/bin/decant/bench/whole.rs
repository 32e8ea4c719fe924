//! A whole model of random weights: decoding and reading a prompt, at any context without going there.
//!
//! What a step costs does not depend on what the cache holds, so a step begins at the position that it is
//! measured at, over pages that hold whatever they hold.

use decant::{
    exec::{Allocation, TapeId},
    model::WeightSource,
    ops::{CacheType, WeightId},
    tape::Step,
    tensor::DType,
};
use pollster::block_on;
use serde_json::json;

use super::{
    kernels::Shares,
    machine::Machine,
    report::{Ceiling, Report},
    shape::{SHAPES, Shape},
};
use crate::Outcome;

/// Positions in a page, as `load` has it.
const PAGE: usize = 32;
/// Rows of a step while a prompt is read, as `load` has it.
const CHUNK: usize = 128;
/// The longest context that is measured.
pub const LONGEST: usize = 4096;
/// Positions beyond it that a run of steps may take.
const SPARE: usize = 64;

/// Measures a model of `shape` whose matrices are of `dtype`, `batch` sequences of it among others.
pub fn whole(
    machine: &mut Machine,
    report: &mut Report,
    shape: &Shape,
    dtype: DType,
    batch: usize,
) -> Outcome<()> {
    let about = format!(
        "{} with random weights in {}; a step as a share of bytes of weights and cache read, a prompt of multiply-adds",
        shape.name,
        dtype.name()
    );
    report.section(&format!("model {}", dtype.name()), &about);
    let context = LONGEST + SPARE;
    let graph = shape.graph(dtype, context)?;
    let pages = context.div_ceil(PAGE);
    let allocation = Allocation {
        weights: graph.weights.iter().map(|w| w.spec.clone()).collect(),
        groups: Vec::new(),
        cache: graph.cache(CacheType::F16, PAGE, pages),
        sequences: batch.max(1),
        pages_per_sequence: pages,
    };
    let matrices = allocation.weights.iter().filter(|spec| spec.dtype == dtype);
    let weight_bytes: usize = matrices.map(|spec| spec.bytes()).sum();
    let tapes = vec![graph.tape(1, 1)?, graph.tape(CHUNK, batch.max(1))?];
    let residual = tapes[1].ops[0].out();
    machine.load(allocation, tapes)?;
    let executor = machine.executor();
    for (id, weight) in graph.weights.iter().enumerate() {
        if let WeightSource::Angles(rope, positions, _) = &weight.source {
            rope.table(*positions, &[], &mut |first, values| {
                let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
                executor.write_weight(WeightId(id), first, &bytes)
            })?;
        }
    }
    block_on(executor.prepare_sampling())?;

    let table: Vec<u32> = (0..pages as u32).collect();
    let one = |position: usize| Step {
        tokens: vec![1],
        positions: vec![position as u32],
        slots: vec![0],
        outputs: vec![0],
        tables: vec![table.clone()],
        angles: Vec::new(),
    };
    let mut rates = Vec::new();
    for context in [128, 1024, LONGEST] {
        let seconds = machine.decode_seconds(TapeId(0), &one(context - 1))?;
        let what = json!({ "step": "decode", "context": context });
        let work = weight_bytes + shape.cache_bytes(context);
        report.share(what.clone(), seconds, Ceiling::Read, work);
        rates.push(report.rate(what, seconds, 1));
    }
    let what = json!({ "step": "decode", "contexts": [LONGEST, 128], "target": 0.4 });
    report.figure(what, "rate_ratio", rates[2] / rates[0]);

    if batch > 1 {
        let step = Step {
            tokens: vec![1; batch],
            positions: vec![127; batch],
            slots: (0..batch as u32).collect(),
            outputs: (0..batch as u32).collect(),
            tables: vec![table.clone(); batch],
            angles: Vec::new(),
        };
        let seconds = machine.decode_seconds(TapeId(1), &step)?;
        let what = json!({ "step": "decode", "context": 128, "batch": batch });
        let rate = report.rate(what, seconds, batch);
        let what = json!({ "step": "decode", "batches": [batch, 1], "target": 3.0 });
        report.figure(what, "rate_ratio", rate / rates[0]);
    }

    // A prompt takes its chunks one after another, each a little longer than the last: the middle one takes
    // the time that they take on average.
    let mut times = Vec::new();
    for prompt in [512, LONGEST] {
        let start = (prompt - CHUNK) / 2;
        let step = Step {
            tokens: vec![1; CHUNK],
            positions: (start as u32..).take(CHUNK).collect(),
            slots: vec![0; CHUNK],
            outputs: Vec::new(),
            tables: vec![table.clone()],
            angles: Vec::new(),
        };
        let seconds = machine.seconds(TapeId(1), &step, residual)?;
        let what = json!({ "step": "prefill", "prompt": prompt });
        let work = shape.layers * shape.layer_values() * CHUNK;
        report.share(what.clone(), seconds, Ceiling::MultiplyAdd, work);
        report.rate(what, seconds, CHUNK);
        times.push(seconds);
    }
    let what = json!({ "step": "prefill", "prompts": [LONGEST, 512], "target": 2.0 });
    report.figure(what, "time_ratio", times[1] / times[0]);
    Ok(())
}

/// Predicts what other models would reach here: their bytes at the measured share of reading, their products
/// at that of multiplying, and the cost of six dispatches a layer and eight a step.
pub fn predict(report: &mut Report, shares: &[Shares], attention: f64) {
    report.section(
        "prediction",
        "tokens per second at a context of 1024, from the shares above",
    );
    let ceilings = report.ceilings();
    for shape in SHAPES.iter().filter(|shape| shape.name.ends_with('b')) {
        for shares in shares {
            let block = shares.dtype.block_bytes() as f64 / shares.dtype.block_len() as f64;
            let weights = shape.matrix_values() as f64 * block;
            let dispatches = (6 * shape.layers + 8) as f64 * ceilings.dispatch;
            let read = weights / (shares.vector * ceilings.read);
            let attended = shape.cache_bytes(1024) as f64 / (attention * ceilings.read);
            let products = (shape.layers * shape.layer_values()) as f64;
            let what = json!({ "shape": shape.name, "format": shares.dtype.name() });
            let decode = 1.0 / (read + attended + dispatches);
            let prefill = shares.tile * ceilings.multiply_add / products;
            let text = format!("decode {decode:8.2}/s, prefill {prefill:8.2}/s");
            let figures = json!({
                "decode_tokens_per_second": decode,
                "prefill_tokens_per_second": prefill,
            });
            report.row(what, 1.0 / decode, &text, figures);
        }
    }
}
