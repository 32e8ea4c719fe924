//! What single processors do, and failures B03, B05, B07, B08 and B09 of comparable systems.

use std::rc::Rc;

use decant::generation::{
    Applied, Row, apply_processors,
    processors::{
        Context, Cutoff, Dry, ExponentialDecay, FrequencyPenalty, LogitBias, MinP, Mirostat,
        PresencePenalty, Processor, RepetitionPenalty, Scratch, SequenceBias, Temperature, TopH,
        TopK, TopNSigma, TopP, Typical, Xtc,
    },
};
use serde_json::json;

fn processed(processor: &dyn Processor, scores: &[f32], ids: &[u32]) -> Vec<f32> {
    let mut scores = scores.to_vec();
    let prompt_length = ids.len();
    let context = Context {
        ids,
        prompt_length,
        ..Context::default()
    };
    processor.process(&context, &mut scores, &mut Scratch::default());
    scores
}

fn at(ids: &[u32], prompt_length: usize) -> Row<'_> {
    Row {
        ids,
        prompt_length,
        ..Row::default()
    }
}

fn kept(scores: &[f32]) -> Vec<usize> {
    let stays = |id: &usize| scores[*id] != f32::NEG_INFINITY;
    (0..scores.len()).filter(stays).collect()
}

#[test]
fn repetition_penalty_follows_the_sign_and_counts_a_token_once() {
    let scores = [2.0, -1.0, 0.5, 0.0];
    let penalised = processed(&RepetitionPenalty::new(2.0), &scores, &[0, 1, 1, 1]);
    assert_eq!(penalised, [1.0, -2.0, 0.5, 0.0]);
    // Ids beyond the scores, of a padded vocabulary say, are left out.
    let beyond = processed(&RepetitionPenalty::new(2.0), &scores, &[0, 4, 4000]);
    assert_eq!(beyond, [1.0, -1.0, 0.5, 0.0]);
}

#[test]
fn tiny_temperatures_leave_the_best_token_and_no_nan() {
    for logits in [
        [1.0, 2.0, 3.0],
        [40000.0, 39999.0, -40000.0],
        [-3e38, 3e38, 0.0],
    ] {
        let best = (0..3)
            .max_by(|&a, &b| f32::total_cmp(&logits[a], &logits[b]))
            .unwrap();
        for temperature in [1e-6, 1e-45, 1e-300, 5e-324, 0.1] {
            let scores = processed(&Temperature::new(temperature), &logits, &[]);
            let case = format!("{logits:?} / {temperature}: {scores:?}");
            assert!(
                scores.iter().all(|s| !s.is_nan() && *s < f32::INFINITY),
                "{case}"
            );
            let above = |id: usize| scores[best] > scores[id];
            assert!((0..3).all(|id| id == best || above(id)), "{case}");
        }
    }
    let removed = processed(
        &Temperature::new(1e-45),
        &[1.0, f32::NEG_INFINITY, 2.0],
        &[],
    );
    assert_eq!(
        kept(&removed),
        [2],
        "an equal score must not come back from removal"
    );
}

#[test]
fn top_k_keeps_ties() {
    let scores = [1.0, 3.0, 2.0, 2.0, 2.0, 0.0];
    assert_eq!(kept(&processed(&TopK::new(1, 1), &scores, &[])), [1]);
    assert_eq!(
        kept(&processed(&TopK::new(2, 1), &scores, &[])),
        [1, 2, 3, 4]
    );
    assert_eq!(kept(&processed(&TopK::new(9, 1), &scores, &[])).len(), 6);
    assert_eq!(
        kept(&processed(&TopK::new(1, 5), &scores, &[])),
        [0, 1, 2, 3, 4]
    );
}

/// The sets are those of the paper's definition; the probabilities are powers of two, so that sums are
/// exact, but whether p = 0.75 is met exactly depends on the rounding of the softmax.
#[test]
fn top_p_keeps_the_smallest_set_that_reaches_p() {
    let scores = [0.125f32, 0.5, 0.125, 0.25].map(f32::ln);
    let kept_at = |p: f64| kept(&processed(&TopP::new(p, 1), &scores, &[]));
    assert_eq!(kept_at(0.76).len(), 3);
    assert_eq!(kept_at(0.74), [1, 3]);
    assert_eq!(kept_at(0.4), [1]);
    assert_eq!(kept_at(0.0), [1]);
    assert_eq!(kept_at(0.9999).len(), 4);
    assert!(kept_at(0.75) == [1, 3] || kept_at(0.75).len() == 3);
    let shifted = scores.map(|score| score + 2f32.ln());
    assert_eq!(kept(&processed(&TopP::new(0.74, 1), &shifted, &[])), [1, 3]);
}

#[test]
fn order_is_temperature_then_top_k_then_top_p() {
    let after = |config: serde_json::Value| {
        let steps = apply_processors(&[3.0, 2.0, 1.0], Row::default(), &config.into()).unwrap();
        kept(&steps.last().unwrap().scores)
    };
    let sharp = json!({"do_sample": true, "top_k": 0, "temperature": 0.5, "top_p": 0.8});
    assert_eq!(after(sharp), [0], "top_p after temperature");
    let one = json!({"do_sample": true, "top_k": 1, "top_p": 0.8});
    assert_eq!(after(one), [0]);
    let two = json!({"do_sample": true, "top_k": 2, "top_p": 0.99});
    assert_eq!(
        after(two),
        [0, 1],
        "top_p sees the probabilities of what top_k left"
    );
}

#[test]
fn min_p_is_a_share_of_the_best_probability() {
    let scores = [-1.0, -2.0, -9.0, f32::NEG_INFINITY];
    let kept_at = |p: f64| kept(&processed(&MinP::new(p, 1), &scores, &[]));
    assert_eq!(kept_at(0.2), [0, 1]);
    assert_eq!(kept_at(0.4), [0]);
    assert_eq!(kept_at(1.0), [0]);
    assert_eq!(kept_at(0.0), [0, 1, 2], "what was removed stays removed");
    assert_eq!(
        kept(&processed(&MinP::new(1.0, 3), &scores, &[])),
        [0, 1, 2]
    );
}

/// A row without a distribution must reach the selection as it is, which then refuses it.
#[test]
fn nan_and_infinity_pass_through_every_processor() {
    let chain: [Rc<dyn Processor>; 18] = [
        Rc::new(RepetitionPenalty::new(1.3)),
        Rc::new(Temperature::new(0.7)),
        Rc::new(TopK::new(2, 1)),
        Rc::new(TopP::new(0.5, 1)),
        Rc::new(MinP::new(0.3, 1)),
        Rc::new(TopH::new(0.5)),
        Rc::new(Typical::new(0.5, 1)),
        Rc::new(Cutoff::epsilon(0.3, 1)),
        Rc::new(Cutoff::eta(0.3, 1)),
        Rc::new(TopNSigma::new(0.5)),
        Rc::new(Xtc {
            probability: 1.0,
            threshold: 0.01,
            seed: 1,
        }),
        Rc::new(Mirostat { tau: 0.1, eta: 0.1 }),
        Rc::new(SequenceBias::new(vec![(vec![3], 2.0), (vec![3, 1], -2.0)])),
        Rc::new(LogitBias::new(&[(2, 5.0)])),
        Rc::new(FrequencyPenalty::new(1.0)),
        Rc::new(PresencePenalty::new(1.0)),
        Rc::new(ExponentialDecay::new((0, 2.0), &[0, 1, 2, 3])),
        Rc::new(Dry {
            multiplier: 1.0,
            base: 2.0,
            allowed_length: 1,
            last_n: 0,
            breakers: vec![],
        }),
    ];
    for bad in [f32::NAN, f32::INFINITY] {
        for at in 0..4 {
            let mut scores = vec![1.0, 3.0, 2.0, -1.0];
            scores[at] = bad;
            for processor in &chain {
                scores = processed(&**processor, &scores, &[0, 1, 2, 3]);
                let name = processor.name();
                let there = scores[at].is_nan() || scores[at] == f32::INFINITY;
                assert!(there, "{name} hid {bad} at {at}: {scores:?}");
            }
        }
    }
}

#[test]
fn each_step_tells_what_it_kept() {
    let config = json!({"do_sample": true, "repetition_penalty": 1.5, "top_k": 3, "min_p": 0.5});
    let scores = [4.0, 1.0, 3.9, 2.0, 0.5];
    let steps = apply_processors(&scores, at(&[0, 1], 1), &config.into()).unwrap();
    let told: Vec<_> = steps
        .iter()
        .map(|s| (s.name, s.args.clone(), s.kept))
        .collect();
    let expected = [
        (
            "repetition_penalty",
            vec![("repetition_penalty", 1.5.into())],
            5,
        ),
        ("top_k", vec![("top_k", 3.0.into())], 3),
        ("min_p", vec![("min_p", 0.5.into())], 1),
    ];
    assert_eq!(told, expected);
    let none: Vec<Applied> = apply_processors(&scores, Row::default(), &json!({}).into()).unwrap();
    assert_eq!(none, []);
}

#[test]
fn a_row_that_cannot_be_processed_is_refused() {
    let refused = |scores: &[f32], ids: &[u32], config: serde_json::Value, prompt_length| {
        let result = apply_processors(scores, at(ids, prompt_length), &config.into());
        result.unwrap_err().to_string()
    };
    let outside = refused(&[1.0, 2.0], &[0, 5], json!({}), 1);
    assert!(
        outside.contains("input_ids[1]: found 5, allowed: ids below 2"),
        "{outside}"
    );
    assert!(refused(&[1.0], &[0], json!({}), 2).contains("prompt_length: found 2"));
    assert!(refused(&[], &[], json!({}), 0).contains("scores: found none"));
    assert!(refused(&[1.0], &[], json!({"top_p": 2}), 0).contains("top_p: found 2"));
    let guided = refused(&[1.0], &[], json!({"guidance_scale": 2}), 0);
    assert!(
        guided.contains("unconditional_scores: found none"),
        "{guided}"
    );
    let other = Row {
        unconditional: Some(&[1.0]),
        ..Row::default()
    };
    let uneven = apply_processors(&[1.0, 2.0], other, &json!({}).into()).unwrap_err();
    assert!(
        uneven
            .to_string()
            .contains("unconditional_scores: found 1, allowed: 2")
    );
}
