//! Whole models on the reference executor against Hugging Face's own numbers.

use decant::{
    exec::{Allocation, Executor, Reference, TapeId},
    model::{Graph, GraphOptions},
    ops::CacheType,
    tape::Step,
};
use pollster::block_on;

use crate::support::{
    golden::{self, Checkpoint},
    weights,
};

const PAGE: usize = 4;

/// A model on the reference executor, with tapes of 1 and `chunk` rows.
fn load(checkpoint: &Checkpoint, chunk: usize, cache: CacheType) -> Reference {
    let graph = Graph::from_index(checkpoint.index(), GraphOptions::default()).unwrap();
    let pages = graph.context_length.div_ceil(PAGE);
    let mut executor = Reference::new();
    let allocation = Allocation {
        weights: graph.weights.iter().map(|w| w.spec.clone()).collect(),
        groups: Vec::new(),
        cache: graph.cache(cache, PAGE, pages),
        sequences: 1,
        pages_per_sequence: pages,
    };
    block_on(executor.allocate(allocation)).unwrap();
    weights::write(&graph, &checkpoint.bytes(), &executor);
    let tapes = vec![graph.tape(1, 1).unwrap(), graph.tape(chunk, chunk).unwrap()];
    block_on(executor.prepare(tapes)).unwrap();
    executor
}

/// Logits of every position, evaluated in steps of up to `chunk` tokens.
fn logits(executor: &Reference, ids: &[u32], chunk: usize) -> Vec<f32> {
    let mut all = Vec::new();
    // Pages in an order of their own show that positions go through the table.
    let table: Vec<u32> = (0..ids.len().div_ceil(PAGE) as u32).rev().collect();
    for (at, tokens) in ids.chunks(chunk).enumerate() {
        let rows = tokens.len() as u32;
        let step = Step {
            tokens: tokens.to_vec(),
            positions: (0..rows).map(|row| (at * chunk) as u32 + row).collect(),
            slots: vec![0; tokens.len()],
            outputs: (0..rows).collect(),
            tables: vec![table.clone()],
            angles: Vec::new(),
        };
        let tape = TapeId(usize::from(chunk > 1));
        all.extend(block_on(executor.forward(tape, &step)).unwrap());
    }
    all
}

/// The largest `|actual − expected|` in units of what is allowed: 2e-4 absolute + 1e-3 relative.
fn distance(actual: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(actual.len(), expected.len());
    assert!(!expected.is_empty());
    let off = |(a, e): (&f32, &f32)| (a - e).abs() / (2e-4 + 1e-3 * e.abs());
    actual
        .iter()
        .zip(expected)
        .map(off)
        .fold(0.0, |worst, off| {
            if off > worst || off.is_nan() {
                off
            } else {
                worst
            }
        })
}

#[test]
fn logits_equal_hugging_face() {
    for name in ["llama", "llama-draft", "llama-tied", "llama-bf16"] {
        let checkpoint = golden::checkpoint(name);
        for chunk in [1, 3, 32] {
            let executor = load(&checkpoint, chunk, CacheType::F32);
            for prompt in golden::forward(name) {
                let found = distance(&logits(&executor, &prompt.input_ids, chunk), &prompt.logits);
                assert!(found < 1.0, "{name}, chunks of {chunk}: {found}");
            }
        }
    }
}

#[test]
fn an_f16_cache_moves_logits_a_little() {
    let checkpoint = golden::checkpoint("llama");
    let [f32s, f16s] = [CacheType::F32, CacheType::F16].map(|cache| load(&checkpoint, 32, cache));
    let ids = &golden::forward("llama")[1].input_ids;
    let (exact, rounded) = (logits(&f32s, ids, 32), logits(&f16s, ids, 32));
    let most = exact
        .iter()
        .zip(&rounded)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    assert!((1e-6..0.05).contains(&most), "{most}");
}

#[test]
fn the_comparison_notices_one_wrong_logit() {
    let prompt = &golden::forward("llama")[0];
    let mut wrong = prompt.logits.clone();
    wrong[7] += 0.01;
    assert!(distance(&wrong, &prompt.logits) > 1.0);
    wrong[7] = f32::NAN;
    assert!(distance(&wrong, &prompt.logits).is_nan());
}

#[test]
fn the_wrong_pairing_gives_other_logits() {
    let mut checkpoint = golden::checkpoint("llama");
    checkpoint.swap_rows("blk.0.attn_q.weight", 1, 2);
    checkpoint.swap_rows("blk.0.attn_k.weight", 1, 2);
    let executor = load(&checkpoint, 32, CacheType::F32);
    let prompt = &golden::forward("llama")[1];
    assert!(distance(&logits(&executor, &prompt.input_ids, 32), &prompt.logits) > 1.0);
}
