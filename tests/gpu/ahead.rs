//! Steps that run ahead: the same tokens at every depth and on both homes, little to read, nothing left over.

use decant::{
    exec::gpu::GpuOptions,
    generation::{Engine, Home, Output, Prompt, RunAhead, TokenScore, Value},
};
use pollster::block_on;
use serde_json::{Value as Json, json};

use crate::{
    answers::real,
    gpu,
    support::{generate, random::Random},
};
use decant::ops::CacheType;

const DEPTHS: [RunAhead; 5] = [
    RunAhead::Host,
    RunAhead::Steps(1),
    RunAhead::Steps(2),
    RunAhead::Steps(8),
    RunAhead::Adaptive,
];

fn tiny() -> Option<Engine> {
    let gpu = gpu(GpuOptions::default())?;
    Some(generate::engine("llama", Box::new(gpu)))
}

/// Prompts of these lengths.
fn prompts(engine: &Engine, lengths: &[usize]) -> Vec<Prompt> {
    let mut random = Random(4);
    let vocabulary = engine.model().vocabulary;
    let mut ids = |length: usize| {
        (0..length)
            .map(|_| random.below(vocabulary) as u32)
            .collect()
    };
    lengths
        .iter()
        .map(|&length| Prompt::Ids(ids(length)))
        .collect()
}

pub fn answer(engine: &Engine, prompts: &[Prompt], config: &Json, depth: RunAhead) -> Output {
    engine.set_run_ahead(depth);
    let mut generation = engine
        .generate_prompts(prompts, &Value::from(config))
        .unwrap();
    let answers = config["num_return_sequences"].as_u64().unwrap_or(1) as usize;
    let mut shown = vec![Vec::new(); prompts.len() * answers];
    while let Some(event) = block_on(generation.next()).unwrap() {
        shown[event.sequence].push(event.token_id);
    }
    let output = generation.finish().unwrap();
    assert_eq!(shown, output.sequences, "what is shown is the result");
    output
}

fn on_device(output: &Output) -> bool {
    output.plan.home == Home::Device
}

/// Compares the answers to `config` on the host with those on the device, at every depth, to prompts of these
/// lengths.
pub fn check(engine: &Engine, lengths: &[usize], config: &Json) {
    let prompts = prompts(engine, lengths);
    let expected = answer(engine, &prompts, config, RunAhead::Host);
    assert!(!on_device(&expected));
    for depth in &DEPTHS[1..] {
        let found = answer(engine, &prompts, config, *depth);
        let what = format!("{config}, {lengths:?}, {depth:?}");
        assert!(on_device(&found), "{what}: {:?}", found.plan.home);
        assert_eq!(found.sequences, expected.sequences, "{what}");
        assert_eq!(found.texts, expected.texts, "{what}");
        assert_eq!(found.stop_reasons, expected.stop_reasons, "{what}");
        assert_eq!(found.beam_indices, expected.beam_indices, "{what}");
        assert_eq!(
            found.usage.completion_tokens,
            expected.usage.completion_tokens
        );
        let pairs = found.token_scores.iter().flatten().flatten();
        let expected_scores = expected.token_scores.iter().flatten().flatten();
        assert_eq!(
            pairs.clone().count(),
            expected_scores.clone().count(),
            "{what}"
        );
        for (found, expected) in pairs.zip(expected_scores) {
            let ids = |score: &TokenScore| score.top.iter().map(|&(id, _)| id).collect::<Vec<_>>();
            assert_eq!(ids(found), ids(expected), "{what}");
            let numbers = |score: &TokenScore| {
                let top = score.top.iter().map(|&(_, logprob)| logprob);
                std::iter::once(score.logprob)
                    .chain(top)
                    .collect::<Vec<_>>()
            };
            assert_near(&what, &numbers(found), &numbers(expected));
        }
        let scores = |output: &Output| output.sequences_scores.clone().unwrap_or_default();
        assert_near(&what, &scores(&found), &scores(&expected));
    }
}

/// Log-probabilities are differences of two numbers below 32 that are rounded a few times by 2⁻²⁰ each, and
/// sums of up to 30 of these divided by as many.
fn assert_near(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let near = |(a, b): (&f32, &f32)| a == b || (a - b).abs() <= 2f32.powi(-16);
    assert!(
        found.iter().zip(expected).all(near),
        "{what}: {found:?}, {expected:?}"
    );
}

#[test]
fn no_token_depends_on_depth_or_home() {
    let Some(engine) = tiny() else { return };
    let eos = engine.model().eos_token_ids.clone();
    let configs = [
        json!({ "max_new_tokens": 19 }),
        json!({ "max_new_tokens": 1 }),
        json!({ "max_new_tokens": 30, "repetition_penalty": 1.4 }),
        json!({ "max_new_tokens": 24, "do_sample": true, "seed": 5 }),
        json!({ "max_new_tokens": 24, "do_sample": true, "seed": 6, "temperature": 0.8, "top_k": 20,
            "top_p": 0.9, "repetition_penalty": 1.1 }),
        json!({ "max_new_tokens": 24, "do_sample": true, "seed": 7, "min_p": 0.05, "top_k": 0,
            "frequency_penalty": 0.3, "presence_penalty": 0.2, "suppress_tokens": [1, 2, 3],
            "logit_bias": { "7": 2.5, "90": -3.0 } }),
        json!({ "max_new_tokens": 24, "do_sample": true, "seed": 8, "temperature": 3.0,
            "min_new_tokens": 5, "forced_eos_token_id": eos[0] }),
        json!({ "max_length": 32, "do_sample": true, "seed": 9, "temperature": 2.0,
            "eos_token_id": (0..40).collect::<Vec<u32>>() }),
    ];
    // Alone; ragged; many alike.
    for lengths in [&[6][..], &[1, 17, 4], &[3; 4]] {
        for config in &configs {
            check(&engine, lengths, config);
        }
    }
}

#[test]
fn what_looks_at_probabilities_or_order_is_the_same_on_both_homes() {
    let Some(engine) = tiny() else { return };
    let eos = engine.model().eos_token_ids[0];
    let configs = [
        json!({ "max_new_tokens": 12, "top_logprobs": 0 }),
        json!({ "max_new_tokens": 12, "top_logprobs": 5, "repetition_penalty": 1.3,
            "renormalize_logits": true }),
        json!({ "max_new_tokens": 24, "do_sample": true, "seed": 5, "top_k": 0, "top_logprobs": 3 }),
        json!({ "max_new_tokens": 24, "do_sample": true, "seed": 6, "temperature": 1.5, "top_k": 20,
            "top_p": 0.9, "top_logprobs": 30 }),
        json!({ "max_new_tokens": 30, "no_repeat_ngram_size": 2 }),
        json!({ "max_new_tokens": 30, "do_sample": true, "seed": 2, "no_repeat_ngram_size": 1,
            "bad_words_ids": [[5], [7, 9], [1, 2, 3]],
            "sequence_bias": [[[30], 3.0], [[30, 31], 9.0], [[30, 31, 32], 9.0], [[31], -1.5]] }),
        json!({ "max_new_tokens": 24, "do_sample": true, "seed": 3, "typical_p": 0.6 }),
        json!({ "max_new_tokens": 24, "do_sample": true, "seed": 4, "top_k": 0, "epsilon_cutoff": 0.01,
            "renormalize_logits": true }),
        json!({ "max_new_tokens": 24, "do_sample": true, "seed": 4, "eta_cutoff": 0.02, "top_k": 0,
            "top_logprobs": 2 }),
        json!({ "max_new_tokens": 30, "exponential_decay_length_penalty": [4, 1.2] }),
        json!({ "max_new_tokens": 9, "forced_bos_token_id": 17, "begin_suppress_tokens": [1, 2, 3],
            "forced_eos_token_id": eos }),
    ];
    for lengths in [&[6][..], &[1, 17, 4]] {
        for config in &configs {
            check(&engine, lengths, config);
        }
    }
}

#[test]
fn several_answers_go_their_own_ways_on_both_homes() {
    let Some(engine) = tiny() else { return };
    let eos = (0..40).collect::<Vec<u32>>();
    let configs = [
        json!({ "max_new_tokens": 20, "do_sample": true, "seed": 5, "num_return_sequences": 3 }),
        json!({ "max_new_tokens": 20, "do_sample": true, "seed": 9, "num_return_sequences": 4,
            "temperature": 2.0, "eos_token_id": eos, "repetition_penalty": 1.2, "top_logprobs": 1 }),
        json!({ "max_new_tokens": 1, "do_sample": true, "seed": 1, "num_return_sequences": 2,
            "no_repeat_ngram_size": 2 }),
    ];
    // Two prompts are all that the cache has room for with so many answers. One of one token goes on from it.
    for lengths in [&[6][..], &[1], &[1, 9]] {
        for config in &configs {
            check(&engine, lengths, config);
        }
    }
}

#[test]
fn beams_are_the_same_from_what_the_device_lists() {
    let Some(engine) = tiny() else { return };
    let configs = [
        json!({ "max_new_tokens": 12, "num_beams": 3 }),
        json!({ "max_new_tokens": 16, "num_beams": 4, "num_return_sequences": 3, "length_penalty": 0.5,
            "early_stopping": true, "eos_token_id": (0..10).collect::<Vec<u32>>() }),
        json!({ "max_new_tokens": 12, "num_beams": 2, "repetition_penalty": 1.4,
            "no_repeat_ngram_size": 2, "min_new_tokens": 6, "suppress_tokens": [4, 5] }),
        json!({ "max_new_tokens": 12, "num_beams": 3, "do_sample": true, "seed": 7, "top_k": 20,
            "temperature": 1.3 }),
        json!({ "max_new_tokens": 12, "num_beams": 2, "do_sample": true, "seed": 8, "top_k": 0 }),
        // Fewer tokens are left than are considered.
        json!({ "max_new_tokens": 5, "num_beams": 4, "forced_eos_token_id": 3, "do_sample": true,
            "seed": 2, "top_k": 3 }),
    ];
    // Two prompts are all that the cache has room for with so many beams.
    for lengths in [&[6][..], &[1, 9]] {
        for config in &configs {
            check(&engine, lengths, config);
        }
    }
}

#[test]
fn of_beams_only_candidates_are_read() {
    let Some(engine) = tiny() else { return };
    let prompts = prompts(&engine, &[6]);
    let config = json!({ "max_new_tokens": 8, "num_beams": 3, "eos_token_id": null });
    let found = answer(&engine, &prompts, &config, RunAhead::Steps(1));
    // Of each beam as many tokens as there are beams and ends of each, with their scores, and four words.
    let (beams, ends) = (3, engine.model().eos_token_ids.len() as u64);
    let words = 4 + 2 * beams * (1 + ends);
    let rows = 1 + 7 * beams;
    assert_eq!(found.timings.bytes_read, rows * words * 4);
    assert!(engine.model().vocabulary > 100);
}

#[test]
fn what_only_the_host_can_do_stays_there_and_says_why() {
    let Some(engine) = tiny() else { return };
    let cases = [
        (json!({ "num_beams": 40 }), "num_beams"),
        (json!({ "num_beams": 2, "top_logprobs": 1 }), "top_logprobs"),
        (json!({ "top_logprobs": 65 }), "top_logprobs"),
        (
            json!({ "num_beams": 2, "do_sample": true, "top_p": 0.5 }),
            "top_p",
        ),
        (
            json!({ "num_beams": 2, "renormalize_logits": true }),
            "renormalize_logits",
        ),
        (
            json!({ "do_sample": true, "typical_p": 0.5, "eta_cutoff": 0.1 }),
            "eta_cutoff",
        ),
        (json!({ "do_sample": true, "top_h": 0.5 }), "top_h"),
        (json!({ "output_scores": true }), "output_scores"),
        (
            json!({ "do_sample": true, "num_return_sequences": 1000 }),
            "num_return_sequences",
        ),
        (json!({ "use_cache": false }), "use_cache"),
        (json!({ "do_sample": true, "top_p": 0.99999 }), "top_p"),
    ];
    for (config, reason) in cases {
        let plan = engine.explain(&Value::from(&config)).unwrap();
        assert_eq!(plan.home.reason(), Some(reason), "{config}");
    }
    let plan = engine.explain(&Value::Null).unwrap();
    assert_eq!((plan.home.name(), plan.home.reason()), ("device", None));
}

#[test]
fn a_generation_that_is_left_gives_everything_back() {
    let Some(engine) = tiny() else { return };
    let prompts = prompts(&engine, &[9]);
    let config = json!({ "max_new_tokens": 40, "eos_token_id": null });
    let expected = answer(&engine, &prompts, &config, RunAhead::Host).sequences;
    engine.set_run_ahead(RunAhead::Steps(4));
    for pulls in [0, 1, 3, 7] {
        let mut generation = engine
            .generate_prompts(&prompts, &Value::from(&config))
            .unwrap();
        for _ in 0..pulls {
            block_on(generation.next()).unwrap().unwrap();
        }
        if pulls == 3 {
            generation.stop_handle().stop();
            assert_eq!(block_on(generation.next()).unwrap(), None);
        }
        let output = generation.finish().unwrap();
        // What was shown is there, and what came back with it.
        let made = output.sequences[0].len();
        assert!((pulls..=pulls + 4).contains(&made), "{made} of {pulls}");
        assert_eq!(output.sequences[0], expected[0][..made]);
        // The steps of at most the two flights in the air came to nothing, and all others to a token each.
        let (wasted, forwards) = (output.timings.steps_wasted, output.timings.forwards);
        assert_eq!((1..=8).contains(&wasted), pulls > 0, "{wasted}");
        assert_eq!(made as u64 + wasted, forwards, "{:?}", output.timings);
        drop(generation);
        assert_eq!(engine.stats().cache_bytes_used, 0);
        let found = answer(&engine, &prompts, &config, RunAhead::Steps(4));
        assert_eq!(found.sequences, expected);
    }
}

#[test]
fn generations_in_turn_do_not_disturb_one_another() {
    let Some(engine) = tiny() else { return };
    let config = |seed: u64| {
        json!({ "max_new_tokens": 14, "do_sample": true, "seed": seed, "repetition_penalty": 1.3,
            "top_k": 30 })
    };
    let prompts = prompts(&engine, &[5, 8]);
    let alone: Vec<_> = (0..2)
        .map(|i| answer(&engine, &prompts[i..=i], &config(i as u64), RunAhead::Host).sequences)
        .collect();
    for depth in &DEPTHS[1..] {
        engine.set_run_ahead(*depth);
        let mut both: Vec<_> = (0..2)
            .map(|i| {
                let config = Value::from(&config(i as u64));
                engine.generate_prompts(&prompts[i..=i], &config).unwrap()
            })
            .collect();
        let mut running = true;
        while running {
            running = false;
            for generation in &mut both {
                running |= block_on(generation.next()).unwrap().is_some();
            }
        }
        let found: Vec<_> = both
            .iter_mut()
            .map(|g| g.finish().unwrap().sequences)
            .collect();
        assert_eq!(found, alone, "{depth:?}");
    }
}

#[test]
fn a_token_of_the_real_model_costs_little_but_its_weights() {
    let Some(engine) = real(CacheType::F16) else {
        return;
    };
    let layers = 30;
    for config in [
        json!({ "max_new_tokens": 9, "eos_token_id": null }),
        json!({ "max_new_tokens": 9, "eos_token_id": null, "do_sample": true, "seed": 1,
            "temperature": 0.7, "top_k": 40, "top_p": 0.9, "repetition_penalty": 1.1 }),
    ] {
        let prompt = [Prompt::Text("Once upon a time".into())];
        let expected = answer(&engine, &prompt, &config, RunAhead::Host);
        for depth in [RunAhead::Steps(1), RunAhead::Steps(4)] {
            let found = answer(&engine, &prompt, &config, depth);
            assert!(on_device(&found));
            assert_eq!(found.sequences, expected.sequences, "{config}, {depth:?}");
            let (timings, tokens) = (found.timings, found.usage.completion_tokens as u64);
            println!("{config} {depth:?}: {timings:?}");
            assert!(timings.bytes_read <= 16 * tokens, "{timings:?}");
            assert_eq!(timings.forwards, tokens, "{timings:?}");
            // The prompt's step may take twice as many.
            let most = (tokens + 1) * (6 * layers + 8);
            assert!(timings.dispatches <= most, "{timings:?} {most}");
            assert!(timings.submits <= tokens, "{timings:?}");
            assert_eq!(timings.steps_wasted, 0);
        }
    }
}
