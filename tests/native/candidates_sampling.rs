//! Drafts of an assistant and sampling: answers are distributed as the model says. The exact
//! probabilities of all answers are known, since they are few.

use std::{collections::HashMap, rc::Rc};

use serde_json::{Value, json};

use crate::support::{
    fake::Setup,
    loops::{assisted, output, with},
};

/// Scores of three tokens and an end token, after a history of a few tokens.
fn model(ids: &[u32]) -> Vec<f32> {
    let last = *ids.last().unwrap() as f32;
    vec![
        0.3 * last,
        1.0 - 0.4 * last,
        0.2,
        -0.5 + 0.3 * ids.len() as f32,
    ]
}

/// What the assistant believes instead.
fn belief(ids: &[u32]) -> Vec<f32> {
    let last = *ids.last().unwrap() as f32;
    vec![0.8, 0.1 * last, 1.1 - 0.5 * last, -0.9]
}

fn softmax(scores: &[f32]) -> Vec<f64> {
    let weights: Vec<f64> = scores.iter().map(|s| f64::from(*s).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

/// Draws 50,000 answers and compares their counts with the exact probabilities; returned is how many
/// standard normal deviations the χ² statistic lies above its mean (Wilson and Hilferty 1931).
fn excess(distribution: impl Fn(&[u32]) -> Vec<f64>, draw: impl Fn(u32) -> Vec<u32>) -> f64 {
    const RUNS: u32 = 50_000;
    let mut counts = HashMap::<Vec<u32>, f64>::new();
    for seed in 0..RUNS {
        *counts.entry(draw(seed)).or_default() += 1.0;
    }
    let mut open = vec![(1.0, Vec::new())];
    let (mut statistic, mut cells, mut total) = (0.0, 0.0, 0.0);
    while let Some((probability, answer)) = open.pop() {
        if answer.len() == 4 || answer.last() == Some(&3) {
            let expected = probability * f64::from(RUNS);
            assert!(expected > 5.0, "too rare an answer for the approximation");
            let count = counts.remove(&answer).unwrap_or(0.0);
            statistic += (count - expected) * (count - expected) / expected;
            (cells, total) = (cells + 1.0, total + probability);
            continue;
        }
        for (id, p) in distribution(&answer).into_iter().enumerate() {
            open.push((probability * p, [&answer[..], &[id as u32]].concat()));
        }
    }
    assert!(counts.is_empty() && (total - 1.0f64).abs() < 1e-9);
    let degrees = cells - 1.0;
    let scaled = (statistic / degrees).powf(1.0 / 3.0);
    (scaled - (1.0 - 2.0 / (9.0 * degrees))) / (2.0 / (9.0 * degrees)).sqrt()
}

/// The normal distribution exceeds this with probability 0.001.
const RARE: f64 = 3.09;

const WORDS: [&str; 4] = [" a", " b", " c", "<eos>"];
const START: [u32; 3] = [1, 2, 1];

fn sampling(seed: u32) -> Value {
    json!({
        "do_sample": true, "top_k": 0, "max_new_tokens": 4, "seed": seed, "num_assistant_tokens": 3,
        "assistant_confidence_threshold": 0.0,
    })
}

fn exact(scores: fn(&[u32]) -> Vec<f32>) -> impl Fn(&[u32]) -> Vec<f64> {
    move |answer| softmax(&scores(&[&START[..], answer].concat()))
}

#[test]
fn sampling_with_an_assistant_has_the_distribution_of_the_model() {
    let (engine, fake) = Setup::new(&WORDS).engine(model, Rc::default());
    let (assistant, other) = Setup::new(&WORDS).engine(belief, Rc::default());
    let draw = |seed| {
        fake.steps.borrow_mut().clear();
        other.steps.borrow_mut().clear();
        let found = assisted(&engine, &assistant, &START, &sampling(seed).into());
        found.sequences.into_iter().next().unwrap()
    };
    let above = excess(exact(model), draw);
    assert!(above < RARE, "{above}");
    assert!(
        excess(exact(belief), draw) > 30.0,
        "the check notices another distribution"
    );
}

#[test]
fn sampling_with_prompt_lookup_draws_what_sampling_draws() {
    let (engine, fake) = Setup::new(&WORDS).engine(model, Rc::default());
    let mut accepted = 0;
    let above = excess(exact(model), |seed| {
        fake.steps.borrow_mut().clear();
        let plain = sampling(seed);
        let config = with(&plain, json!({"prompt_lookup_num_tokens": 2}));
        let found = output(&engine, json!(START), config);
        if seed < 2000 {
            assert_eq!(
                output(&engine, json!(START), plain).sequences,
                found.sequences
            );
        }
        found.sequences.into_iter().next().unwrap()
    });
    for seed in 0..200 {
        let config = with(&sampling(seed), json!({"prompt_lookup_num_tokens": 2}));
        accepted += output(&engine, json!(START), config)
            .speculation
            .unwrap()
            .accepted;
    }
    assert!(above < RARE && accepted > 10, "{above}, {accepted}");
}

/// With a weight, what is accepted is distributed as the mixture of model and assistant; a token that
/// follows a whole draft is the model's alone.
#[test]
fn an_ensemble_draws_from_the_mixture() {
    let (engine, fake) = Setup::new(&WORDS).engine(model, Rc::default());
    let (assistant, other) = Setup::new(&WORDS).engine(belief, Rc::default());
    let draw = |seed| {
        fake.steps.borrow_mut().clear();
        other.steps.borrow_mut().clear();
        let weight = json!({"assistant_ensemble_weight": 0.3});
        let config = with(&sampling(seed), weight).into();
        let found = assisted(&engine, &assistant, &START, &config);
        found.sequences.into_iter().next().unwrap()
    };
    let mixture = |answer: &[u32]| -> Vec<f64> {
        let ids = [&START[..], answer].concat();
        let weight = 0.3;
        let pairs = softmax(&model(&ids))
            .into_iter()
            .zip(softmax(&belief(&ids)));
        pairs
            .map(|(p, q)| weight * p + (1.0 - weight) * q)
            .collect()
    };
    // The pages of the last call hold the prompt, so that all of a draft can be verified in the first step.
    // Later a token may follow a whole draft; the first two always are of a draft.
    let first = |answer: Vec<u32>| answer.into_iter().take(2).collect::<Vec<_>>();
    let mut counts = HashMap::<Vec<u32>, f64>::new();
    const RUNS: u32 = 20_000;
    for seed in 0..RUNS {
        *counts.entry(first(draw(seed))).or_default() += 1.0;
    }
    let mut statistic = 0.0;
    for (a, p) in mixture(&[]).into_iter().enumerate() {
        let nexts = if a == 3 {
            vec![(vec![3], p)]
        } else {
            let second = mixture(&[a as u32]).into_iter().enumerate();
            second
                .map(|(b, q)| (vec![a as u32, b as u32], p * q))
                .collect()
        };
        for (answer, probability) in nexts {
            let expected = probability * f64::from(RUNS);
            statistic += (counts[&answer] - expected).powi(2) / expected;
        }
    }
    // The χ² distribution with twelve degrees of freedom exceeds 32.9 with probability 0.001.
    assert!(statistic < 32.9, "{statistic}");
}
