//! Whole calls against Hugging Face's `generate()`: golden checkpoints on the reference executor.

use std::collections::BTreeSet;

use decant::error::ErrorKind;
use pollster::block_on;
use serde_json::{Value, json};

use crate::support::{
    generate::{answer, cases, difference, run},
    golden, golden_engine,
};

/// Cases in which ours differs from Hugging Face by design.
const REFUSED: [&str; 0] = [];

#[test]
fn calls_give_the_answers_of_hugging_face() {
    let mut passed = 0;
    let (mut refused, mut padded) = (BTreeSet::new(), BTreeSet::new());
    for model in ["llama", "llama-tied", "llama-bf16"] {
        let engine = golden_engine::engine(model);
        let counts = run(model, &engine);
        assert_eq!(counts.failed, [""; 0], "{model}");
        passed += counts.passed;
        refused.extend(counts.refused);
        padded.extend(counts.padded);
        assert_eq!(engine.stats().cache_bytes_used, 0);
    }
    println!(
        "generate: {passed} passed; {} refused by design: {refused:?}; {} where Hugging Face counts padding: {padded:?}; none failed",
        refused.len(),
        padded.len()
    );
    assert!(refused.iter().eq(REFUSED.iter()));
    assert!(padded.iter().eq(["batch with max_length"].iter()));
    assert_eq!(passed, 92);
}

#[test]
fn the_comparison_of_calls_notices_a_difference() {
    let engine = golden_engine::engine("llama");
    let cases = cases("generate/llama.jsonl");
    let named = |name: &str| cases.iter().find(|case| case["name"] == name).unwrap();
    let notices = |name: &str, path: &str, value: Value| {
        let mut case = named(name).clone();
        let output = answer(&engine, &case, None).unwrap();
        assert_eq!(difference(&case, &output), None, "{name}");
        let place = case.pointer_mut(path).unwrap();
        assert_ne!(*place, value);
        *place = value;
        assert!(difference(&case, &output).is_some(), "{name}: {path}");
    };
    notices("greedy", "/expect/sequences/0/2", json!(0));
    notices("batch", "/expect/sequences", json!([[1]]));
    notices("several end tokens", "/expect/stop/0", json!("length"));
    let scored = "beams 2 with scores";
    notices(scored, "/expect/beam_indices/0/1", json!(7));
    notices(scored, "/expect/sequences_scores/1", json!(0.5));
    notices(scored, "/expect/scores/1/1/7", json!(0.25));
    notices(scored, "/expect/scores/0/0/0", json!("-inf"));
}

/// What Hugging Face raises for is refused here before any token; whatever else we refuse.
#[test]
fn calls_that_hugging_face_refuses_are_refused() {
    let engine = golden_engine::engine("llama");
    let cases = cases("errors.jsonl");
    for case in &cases {
        assert_eq!(case["model"], "llama");
        let error = answer(&engine, case, None).err();
        let error = error.unwrap_or_else(|| panic!("{} was accepted", case["name"]));
        let ErrorKind::InvalidOption { name } = error.kind() else {
            panic!("{}: {error:?}", case["name"]);
        };
        assert!(
            case["config"].get(name).is_some(),
            "{}: {error}",
            case["name"]
        );
    }
    assert_eq!(cases.len(), 26);
    assert_eq!(engine.stats().generations, 0);
}

/// `model.forward`: the scores of every position equal the golden forward pass.
#[test]
fn scores_of_all_positions_equal_hugging_face() {
    let engine = golden_engine::engine("llama");
    for forward in golden::forward("llama") {
        let logits = block_on(engine.forward_all(&forward.input_ids)).unwrap();
        assert_eq!(logits.len(), forward.logits.len());
        let far = logits
            .iter()
            .zip(&forward.logits)
            .map(|(a, b)| (a - b).abs());
        let worst = far.fold(0.0, f32::max);
        assert!(worst < 1e-3, "the scores differ by {worst}");
    }
}
