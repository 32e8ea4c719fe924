//! Steps that run ahead: the same tokens at every depth and on both homes, little to read, nothing left over.

use decant::{
    exec::gpu::GpuOptions,
    generation::{Engine, Home, Output, Prompt, RunAhead, Value},
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

fn answer(engine: &Engine, prompts: &[Prompt], config: &Json, depth: RunAhead) -> Output {
    engine.set_run_ahead(depth);
    let mut generation = engine
        .generate_prompts(prompts, &Value::from(config))
        .unwrap();
    let mut shown = vec![Vec::new(); prompts.len()];
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
        let prompts = prompts(&engine, lengths);
        for config in &configs {
            let expected = answer(&engine, &prompts, config, RunAhead::Host);
            assert!(!on_device(&expected));
            for depth in &DEPTHS[1..] {
                let found = answer(&engine, &prompts, config, *depth);
                let what = format!("{config}, {lengths:?}, {depth:?}");
                assert!(on_device(&found), "{what}: {:?}", found.plan.home);
                assert_eq!(found.sequences, expected.sequences, "{what}");
                assert_eq!(found.texts, expected.texts, "{what}");
                assert_eq!(found.stop_reasons, expected.stop_reasons, "{what}");
                assert_eq!(
                    found.usage.completion_tokens,
                    expected.usage.completion_tokens
                );
            }
        }
    }
}

#[test]
fn what_only_the_host_can_do_stays_there_and_says_why() {
    let Some(engine) = tiny() else { return };
    let cases = [
        (json!({ "num_beams": 2 }), "num_beams"),
        (json!({ "do_sample": true, "typical_p": 0.5 }), "typical_p"),
        (json!({ "no_repeat_ngram_size": 2 }), "no_repeat_ngram_size"),
        (json!({ "output_scores": true }), "output_scores"),
        (
            json!({ "do_sample": true, "num_return_sequences": 2 }),
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
