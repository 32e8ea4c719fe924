//! Processors that Hugging Face has not, against the formulas they are named after; and failures B12, B13
//! of comparable systems.

use decant::{
    exec::sample::{Change, Edit, When},
    generation::{
        DeviceForm, Row, apply_processors,
        processors::{Context, MinLength, Mirostat, Processor, Scratch, Xtc},
    },
};
use serde_json::json;

/// The scores after the chain of `config`; `ids` after the first `prompt` are the answer.
fn after(config: serde_json::Value, scores: &[f32], ids: &[u32], prompt: usize) -> Vec<f32> {
    let row = Row {
        ids,
        prompt_length: prompt,
        ..Row::default()
    };
    let steps = apply_processors(scores, row, &config.into()).unwrap();
    steps
        .last()
        .map_or(scores.to_vec(), |step| step.scores.clone())
}

fn kept(scores: &[f32]) -> Vec<usize> {
    let stays = |id: &usize| scores[*id] != f32::NEG_INFINITY;
    (0..scores.len()).filter(stays).collect()
}

/// Failure B12: biases of sequences that end alike add up; one too long for the history is inert.
#[test]
fn sequence_biases_follow_the_history() {
    let config =
        json!({"sequence_bias": [[[1, 3], 10], [[2, 3], -10], [[3], 1], [[1, 1, 1, 1, 3], 100]]});
    let bias = |ids: &[u32]| after(config.clone(), &[0.0; 10], ids, ids.len());
    for (ids, expected) in [
        (vec![1], 11.0),
        (vec![2], -9.0),
        (vec![], 1.0),
        (vec![9, 9], 1.0),
    ] {
        let scores = bias(&ids);
        assert_eq!(scores[3], expected, "after {ids:?}");
        assert!(
            scores
                .iter()
                .enumerate()
                .all(|(id, &s)| id == 3 || s == 0.0)
        );
    }
    // Of equal sequences the last counts, as in the dictionary that Hugging Face makes of them.
    let twice = json!({"sequence_bias": [[[3], 1], [[3], 5]]});
    assert_eq!(after(twice, &[0.0; 4], &[], 0)[3], 5.0);
}

/// Failure B13: no end token, whichever it is, before the minimum, whatever the prompt's length.
#[test]
fn a_minimum_holds_back_every_end_token() {
    let config = json!({"eos_token_id": [2, 7], "min_new_tokens": 3});
    for prompt in [1, 10] {
        for new in 0..5 {
            let ids = vec![4; prompt + new];
            let scores = after(config.clone(), &[1.0; 8], &ids, prompt);
            assert_eq!(
                kept(&scores).len(),
                if new < 3 { 6 } else { 8 },
                "{prompt} + {new}"
            );
        }
    }
}

/// A minimum that no answer can reach holds on the device, too, whose numbers are shorter.
#[test]
fn a_minimum_beyond_all_answers_is_never_reached_on_the_device() {
    let form = |when| {
        let change = Change::Remove(vec![7]);
        Some(DeviceForm::edit(Edit { change, when }))
    };
    for least in [1 << 32, usize::MAX] {
        let (length, new) = (
            MinLength::length(least, &[7]),
            MinLength::new_tokens(least, &[7]),
        );
        assert_eq!(length.device(), form(When::LengthBelow(u32::MAX)));
        assert_eq!(new.device(), form(When::NewTokensBelow(u32::MAX)));
    }
    assert_eq!(
        MinLength::length(5, &[7]).device(),
        form(When::LengthBelow(5))
    );
}

#[test]
fn openai_penalties_count_the_answer_alone() {
    let scores = [1.0; 4];
    let ids = [0, 0, 1, 1, 1, 2];
    let frequent = after(json!({"frequency_penalty": 0.5}), &scores, &ids, 2);
    assert_eq!(frequent, [1.0, -0.5, 0.5, 1.0]);
    let present = after(json!({"presence_penalty": 0.5}), &scores, &ids, 2);
    assert_eq!(present, [1.0, 0.5, 0.5, 1.0]);
    let favoured = after(json!({"presence_penalty": -2}), &scores, &ids, 2);
    assert_eq!(favoured, [1.0, 3.0, 3.0, 1.0]);
    let biased = after(
        json!({"logit_bias": {"3": -100, "0": 2.5}}),
        &scores,
        &[],
        0,
    );
    assert_eq!(biased, [3.5, 1.0, 1.0, -99.0]);
}

#[test]
fn dry_costs_more_the_longer_the_repetition() {
    let config = json!({"dry_multiplier": 0.5, "dry_base": 2, "dry_allowed_length": 2});
    let with = |extra: serde_json::Value, ids: &[u32]| {
        let mut config = config.clone();
        config
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        after(config, &[0.0; 10], ids, ids.len())
    };
    // 1 2 3 → 4 was seen and 1 2 3 is the end: n = 3. 3 → 5 was seen once more: n = 1, below the limit.
    let ids = [1, 2, 3, 4, 3, 5, 1, 2, 3];
    let scores = with(json!({}), &ids);
    assert_eq!(scores[4], -1.0, "0.5 · 2^(3 − 2)");
    assert!(
        scores
            .iter()
            .enumerate()
            .all(|(id, &s)| id == 4 || s == 0.0),
        "{scores:?}"
    );
    assert_eq!(with(json!({"dry_allowed_length": 1}), &ids)[5], -0.5);
    assert_eq!(
        with(json!({"dry_sequence_breaker_ids": [1]}), &ids)[4],
        -0.5,
        "n is 2 up to 1"
    );
    assert_eq!(with(json!({"dry_sequence_breaker_ids": [3]}), &ids)[4], 0.0);
    assert_eq!(with(json!({"dry_sequence_breaker_ids": [4]}), &ids)[4], 0.0);
    assert_eq!(
        with(json!({"dry_penalty_last_n": 8}), &ids)[4],
        -0.5,
        "1 is out of sight"
    );
    assert_eq!(with(json!({"dry_penalty_last_n": 3}), &ids), [0.0; 10]);
    // Thousands of the same token cost a finite amount.
    assert!(with(json!({"dry_base": 1e6}), &[7; 3000])[7].is_finite());
}

#[test]
fn top_n_sigma_counts_standard_deviations_from_the_best() {
    // Mean 2, deviation 2 (population), best 5.
    let scores = [5.0, 3.0, 0.0, 1.0, 1.0, 2.0];
    let at = |n: f64| {
        let config = json!({"do_sample": true, "top_k": 0, "top_n_sigma": n});
        kept(&after(config, &scores, &[], 0))
    };
    let deviation = (scores
        .iter()
        .map(|&s| (f64::from(s) - 2.0).powi(2))
        .sum::<f64>()
        / 6.0)
        .sqrt();
    assert_eq!(at(1.99 / deviation), [0]);
    assert_eq!(at(2.01 / deviation), [0, 1]);
    assert_eq!(at(3.01 / deviation), [0, 1, 5]);
    assert_eq!(at(9.0).len(), 6);
    // What was removed counts for nothing.
    let holed = [5.0, f32::NEG_INFINITY, 3.0];
    let config = json!({"do_sample": true, "top_k": 0, "top_n_sigma": 1.9});
    assert_eq!(kept(&after(config, &holed, &[], 0)), [0]);
}

#[test]
fn xtc_removes_all_top_choices_but_the_least() {
    let scores = [0.4f32, 0.3, 0.2, 0.1].map(f32::ln);
    let at = |probability: f64, threshold: f64| {
        let config = json!({
            "do_sample": true, "top_k": 0, "xtc_probability": probability, "xtc_threshold": threshold,
        });
        kept(&after(config, &scores, &[], 0))
    };
    assert_eq!(at(1.0, 0.15), [2, 3]);
    assert_eq!(at(1.0, 0.25), [1, 2, 3]);
    assert_eq!(at(1.0, 0.35).len(), 4, "one top choice stays");
    assert_eq!(at(1.0, 0.0), [3]);
    assert_eq!(at(0.0, 0.15).len(), 4);
    // Over many steps the draws come as often as the probability says: 4000 draws at 0.3 have a
    // deviation of 29.
    let xtc = Xtc {
        probability: 0.3,
        threshold: 0.15,
        seed: 5,
    };
    let ids = vec![0; 4000];
    let removed = (0..4000).filter(|&length| {
        let mut row = scores;
        let context = Context {
            ids: &ids[..length],
            ..Context::default()
        };
        xtc.process(&context, &mut row, &mut Scratch::default());
        row[0] == f32::NEG_INFINITY
    });
    let removed = removed.count() as f64;
    assert!((removed - 1200.0).abs() < 5.0 * 29.0, "{removed}");
}

/// The bound follows `μ ← μ − η (surprise − τ)`, each sequence its own.
#[test]
fn mirostat_follows_the_surprise_of_what_was_chosen() {
    let scores = [0.5f32, 0.25, 0.125, 0.0625, 0.0625].map(f32::ln);
    let mirostat = Mirostat { tau: 1.1, eta: 0.5 };
    let mut scratch = Scratch::default();
    let mut step = |sequence: usize, ids: &[u32]| {
        let mut row = scores;
        let context = Context {
            ids,
            sequence,
            ..Context::default()
        };
        mirostat.process(&context, &mut row, &mut scratch);
        kept(&row)
    };
    // 2τ = 2.2 bits: surprises are 1, 2, 3, 4, 4.
    assert_eq!(step(0, &[9]), [0, 1]);
    assert_eq!(step(0, &[9]), [0, 1], "the same step again changes nothing");
    // Token 0 of {0: 2/3, 1: 1/3} has 0.585 bits: μ = 2.2 + 0.5 · 0.515 = 2.457.
    assert_eq!(step(0, &[9, 0]), [0, 1]);
    // Three times more: 2.715, 2.972, 3.230.
    assert_eq!(step(0, &[9, 0, 0]), [0, 1]);
    assert_eq!(step(0, &[9, 0, 0, 0]), [0, 1]);
    assert_eq!(step(0, &[9, 0, 0, 0, 0]), [0, 1, 2]);
    assert_eq!(
        step(1, &[9]),
        [0, 1],
        "another sequence has a bound of its own"
    );
    // Of 7/8, token 2 has 2.807 bits: μ = 3.230 − 0.5 · 1.707 = 2.376.
    assert_eq!(step(0, &[9, 0, 0, 0, 0, 2]), [0, 1]);
    // The best token always stays.
    let strict = Mirostat { tau: 0.1, eta: 0.1 };
    let mut row = scores;
    strict.process(&Context::default(), &mut row, &mut Scratch::default());
    assert_eq!(kept(&row), [0]);
}
