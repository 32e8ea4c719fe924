//! Whole calls against Hugging Face's `generate()`: golden checkpoints on the reference executor.

use decant::{error::ErrorKind, generation::Output};
use pollster::block_on;
use serde_json::{Value, json};

use crate::support::{
    generate::{answer, cases, check, difference, with_scores},
    golden, golden_engine,
};

#[test]
fn calls_give_the_answers_of_hugging_face() {
    let mut passed = 0;
    for model in ["llama", "llama-tied", "llama-bf16"] {
        let engine = golden_engine::engine(model);
        passed += check(model, &engine);
        assert_eq!(engine.stats().cache_bytes_used, 0);
    }
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
    // Cases that do not ask for their scores are asked again: none, too few and wrong ones are seen.
    let mut asking = 0;
    for case in cases.iter().filter_map(with_scores) {
        let name = case["name"].as_str().unwrap();
        let output = answer(&engine, &case, None).unwrap();
        assert_eq!(difference(&case, &output), None, "{name}");
        let differs = |change: &dyn Fn(&mut Output)| {
            let mut output = output.clone();
            change(&mut output);
            assert!(difference(&case, &output).is_some(), "{name}");
        };
        differs(&|output| output.scores = None);
        differs(&|output| output.scores.as_mut().unwrap()[0].truncate(2));
        differs(&|output| output.scores.as_mut().unwrap().push(Vec::new()));
        differs(&|output| output.scores.as_mut().unwrap()[0][2][9] += 0.01);
        asking += 1;
    }
    assert_eq!(asking, 7);
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
