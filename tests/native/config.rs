//! Options: layers, checks, warnings. Failures B01 and B02 of comparable systems.

use decant::{
    error::{ErrorKind, Result},
    generation::{Criterion, FIELDS, ModelFacts, Plan, Source, Strategy},
};
use serde_json::json;

fn model() -> ModelFacts {
    ModelFacts {
        vocabulary: 100,
        context_length: 64,
        bos_token_id: Some(1),
        eos_token_ids: vec![2],
        pad_token_id: None,
    }
}

fn plan(call: serde_json::Value, file: serde_json::Value) -> Result<Plan> {
    Plan::new(&call.into(), &file.into(), &model())
}

fn planned(call: serde_json::Value, file: serde_json::Value) -> Plan {
    plan(call, file).unwrap()
}

/// The message of the refusal, which must name `field`.
fn refusal(call: serde_json::Value, field: &str) -> String {
    let error = plan(call.clone(), json!(null)).expect_err(&call.to_string());
    let name = field.to_owned();
    assert_eq!(error.kind(), &ErrorKind::InvalidOption { name }, "{call}");
    error.to_string()
}

fn value(plan: &Plan, name: &str) -> (serde_json::Value, Source) {
    let setting = plan.setting(name).unwrap();
    (setting.value.to_json(), setting.source)
}

fn stages(plan: &Plan) -> Vec<&'static str> {
    plan.processors.iter().map(|s| s.name()).collect()
}

fn warned(plan: &Plan) -> Vec<&str> {
    plan.warnings.iter().map(|w| w.field.as_str()).collect()
}

#[test]
fn without_any_layer_the_plan_is_greedy_and_makes_20_tokens() {
    let plan = planned(json!({}), json!(null));
    assert_eq!(plan.strategy, Strategy::Greedy);
    assert_eq!(stages(&plan), [""; 0]);
    let rules: Vec<_> = plan.stopping.iter().map(|r| r.criterion.clone()).collect();
    let expected = [
        Criterion::Eos(vec![2]),
        Criterion::MaxNewTokens(20),
        Criterion::Context(64),
    ];
    assert_eq!(rules, expected);
    assert_eq!(plan.longest(10), 30);
    assert_eq!(plan.longest(60), 64, "the context caps the default");
    assert_eq!(warned(&plan), [""; 0]);
}

#[test]
fn every_layer_says_where_a_value_came_from() {
    let call = json!({"temperature": 0.2, "do_sample": true});
    let file = json!({"temperature": 0.6, "top_p": 0.9, "eos_token_id": [1, 9]});
    let plan = planned(call, file);
    assert_eq!(value(&plan, "temperature"), (json!(0.2), Source::Call));
    assert_eq!(
        value(&plan, "top_p"),
        (json!(0.9), Source::GenerationConfig)
    );
    let eos = (json!([1, 9]), Source::GenerationConfig);
    assert_eq!(value(&plan, "eos_token_id"), eos);
    assert_eq!(
        value(&plan, "bos_token_id"),
        (json!(1), Source::ModelConfig)
    );
    assert_eq!(value(&plan, "top_k"), (json!(50), Source::Library));
    // Without a pad token the first end token pads, as in Hugging Face; nobody has set it.
    let (pad, source) = value(&plan, "pad_token_id");
    assert_eq!((pad, source.name()), (json!(1), "derived"));
    let sources: Vec<_> = plan.processors.iter().map(|s| s.source).collect();
    let expected = [Source::Call, Source::Library, Source::GenerationConfig];
    assert_eq!(sources, expected);
}

#[test]
fn explicit_zeros_reach_the_engine_and_null_does_not() {
    let file = json!({"do_sample": true, "temperature": 0.7, "top_k": 40, "eos_token_id": 2});
    let zero = |name: &str| planned(json!({name: 0}), file.clone());
    assert_eq!(value(&zero("top_k"), "top_k"), (json!(0), Source::Call));
    assert!(!stages(&zero("top_k")).contains(&"top_k"));
    assert_eq!(value(&zero("seed"), "seed"), (json!(0), Source::Call));
    assert_eq!(zero("eos_token_id").eos_token_ids(), [0]);
    let pad = value(&zero("pad_token_id"), "pad_token_id");
    assert_eq!(pad, (json!(0), Source::Call));
    assert_eq!(
        value(&zero("max_time"), "max_time"),
        (json!(0), Source::Call)
    );
    let greedy = planned(json!({"do_sample": false}), file.clone());
    assert_eq!(greedy.strategy, Strategy::Greedy);
    let endless = planned(json!({"eos_token_id": []}), file.clone());
    assert!(endless.eos_token_ids().is_empty());

    for name in [
        "temperature",
        "max_new_tokens",
        "max_length",
        "repetition_penalty",
    ] {
        let message = refusal(json!({name: 0}), name);
        assert!(message.contains("found 0, allowed: "), "{message}");
    }
    let hint = refusal(json!({"temperature": 0}), "temperature");
    assert!(hint.contains("set do_sample to false"), "{hint}");

    // Null means "not given", for every field, in both layers.
    for field in FIELDS {
        let with_null = planned(json!({field.name: null}), file.clone());
        let without = planned(json!({}), file.clone());
        let same = |name| value(&with_null, name) == value(&without, name);
        assert!(
            same("temperature") && same("top_k") && same("max_length"),
            "{}",
            field.name
        );
        assert_eq!(
            warned(&planned(json!({}), json!({field.name: null}))),
            [""; 0]
        );
    }
}

#[test]
fn a_call_overrides_the_file_field_by_field() {
    let file = json!({"do_sample": true, "temperature": 0.6, "top_p": 0.9});
    let before = file.clone();
    let both = planned(json!({}), file.clone());
    assert_eq!(value(&both, "temperature").0, json!(0.6));
    assert_eq!(stages(&both), ["temperature", "top_k", "top_p"]);
    let cooler = planned(json!({"temperature": 0.2}), file.clone());
    assert_eq!(value(&cooler, "temperature").0, json!(0.2));
    assert_eq!(value(&cooler, "top_p").0, json!(0.9));
    let greedy = planned(json!({"do_sample": false}), file.clone());
    assert_eq!(
        (greedy.strategy, stages(&greedy)),
        (Strategy::Greedy, vec![])
    );
    assert_eq!(warned(&greedy), [""; 0], "the file's fields are silent");
    let mixed = planned(json!({"do_sample": false, "top_p": 0.8}), file.clone());
    assert_eq!(warned(&mixed), ["top_p"]);
    assert_eq!(file, before);
}

#[test]
fn settings_without_effect_are_warnings_only_where_the_caller_set_them() {
    let sampling = json!({
        "temperature": 0.5, "top_k": 3, "top_p": 0.5, "min_p": 0.1, "top_h": 0.5, "typical_p": 0.5,
        "epsilon_cutoff": 0.1, "eta_cutoff": 0.1, "seed": 7, "top_n_sigma": 1, "xtc_probability": 0.5,
        "xtc_threshold": 0.2, "mirostat_mode": 2, "mirostat_tau": 3, "mirostat_eta": 0.2,
    });
    let expected: Vec<_> = sampling.as_object().unwrap().keys().collect();
    let greedy = planned(sampling.clone(), json!(null));
    assert_eq!(stages(&greedy), [""; 0]);
    assert_eq!(warned(&greedy), expected);
    assert_eq!(warned(&planned(json!({}), sampling)), [""; 0]);
    let neutral = json!({"temperature": 1, "top_k": 50, "top_p": 1});
    assert_eq!(warned(&planned(neutral, json!(null))), [""; 0]);

    let both = planned(json!({"max_length": 30, "max_new_tokens": 5}), json!(null));
    assert_eq!(warned(&both), ["max_length"]);
    assert_eq!(both.longest(10), 15);
    // A file's max_new_tokens beats a call's max_length, as in Hugging Face; but not silently.
    let from_file = planned(json!({"max_length": 30}), json!({"max_new_tokens": 5}));
    assert_eq!(warned(&from_file), ["max_length"]);
    assert_eq!(from_file.longest(10), 15);
    let long = planned(
        json!({"max_length": 1000, "max_new_tokens": 5}),
        json!(null),
    );
    assert_eq!(warned(&long), ["max_length"]);
    let long = planned(json!({"max_length": 1000}), json!(null));
    assert_eq!((warned(&long), long.longest(10)), (vec!["max_length"], 64));
    assert_eq!(
        warned(&planned(json!({"pad_token_id": 3}), json!(null))),
        ["pad_token_id"]
    );
    let ends = planned(json!({"eos_token_id": 3}), json!(null));
    assert_eq!(warned(&ends), [""; 0], "the pad token is derived from it");
}

/// Each option that reads another one says so when that one is off.
#[test]
fn options_that_depend_on_another_warn_without_it() {
    let alone = [
        json!({"length_penalty": 2}),
        json!({"early_stopping": true}),
        json!({"early_stopping": "never"}),
        json!({"dry_base": 2}),
        json!({"dry_allowed_length": 3}),
        json!({"dry_penalty_last_n": 9}),
        json!({"dry_sequence_breaker_ids": [3]}),
        json!({"max_matching_ngram_size": 3}),
        json!({"do_sample": true, "xtc_threshold": 0.2}),
        json!({"do_sample": true, "mirostat_tau": 3}),
        json!({"do_sample": true, "mirostat_eta": 0.2}),
        json!({"eos_token_id": [], "min_length": 3}),
        json!({"eos_token_id": [], "min_new_tokens": 3}),
        json!({"eos_token_id": [], "exponential_decay_length_penalty": [1, 2]}),
        json!({"min_new_tokens": 3, "min_length": 5}),
        json!({"eos_token_id": [], "min_new_tokens": null, "min_length": 100}),
        json!({"max_new_tokens": 3, "min_new_tokens": 5}),
        json!({"min_new_tokens": 21}),
        json!({"max_length": 9, "min_new_tokens": 9}),
        json!({"max_length": 9, "min_length": 10}),
        json!({"max_new_tokens": 500, "min_length": 65}),
        json!({"bad_words_ids": [[3], [2]]}),
        json!({"do_sample": true, "mirostat_mode": 2}),
    ];
    for call in alone {
        let field = call.as_object().unwrap().keys().next_back().unwrap();
        assert_eq!(
            warned(&planned(call.clone(), json!(null))),
            [field],
            "{call}"
        );
    }
    let together = [
        json!({"dry_multiplier": 1, "dry_base": 2, "dry_allowed_length": 3}),
        json!({"do_sample": true, "xtc_probability": 0.5, "xtc_threshold": 0.2}),
        json!({"do_sample": true, "top_k": 0, "mirostat_mode": 2, "mirostat_tau": 3}),
        json!({"min_length": 3, "exponential_decay_length_penalty": [1, 2]}),
        json!({"min_length": 0, "min_new_tokens": 3}),
        json!({"min_new_tokens": 20}),
        json!({"max_length": 9, "min_new_tokens": 8}),
        json!({"max_length": 9, "min_length": 9}),
        json!({"bad_words_ids": [[3], [4, 2]]}),
    ];
    for call in together {
        assert_eq!(
            warned(&planned(call.clone(), json!(null))),
            [""; 0],
            "{call}"
        );
    }
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    let both = json!({"forced_eos_token_id": [3, 4], "suppress_tokens": [4, 5, 3]});
    assert!(refusal(both, "forced_eos_token_id").contains("suppress_tokens"));
    let bos = json!({"forced_bos_token_id": 3, "suppress_tokens": [3]});
    refusal(bos, "forced_bos_token_id");
    planned(
        json!({"forced_eos_token_id": [3, 4], "suppress_tokens": [4]}),
        json!(null),
    );
    refusal(json!({"num_return_sequences": 2}), "num_return_sequences");
    let many = json!({"num_beams": 2, "num_return_sequences": 3});
    assert!(refusal(many, "num_return_sequences").contains("at most num_beams, which is 2"));
    let drafts = json!({"num_beams": 2, "prompt_lookup_num_tokens": 3});
    refusal(drafts, "prompt_lookup_num_tokens");
    refusal(json!({"num_beams": 2, "mirostat_mode": 2}), "mirostat_mode");
}

#[test]
fn ids_outside_the_vocabulary_are_the_callers_fault_and_not_the_files() {
    for (field, value) in [
        ("eos_token_id", json!([3, 100])),
        ("forced_bos_token_id", json!(100)),
        ("forced_eos_token_id", json!([100])),
        ("suppress_tokens", json!([3, 100])),
        ("begin_suppress_tokens", json!([100])),
        ("dry_sequence_breaker_ids", json!([100])),
        ("bad_words_ids", json!([[3], [4, 100]])),
        ("sequence_bias", json!([[[3, 100], 1.5]])),
        ("logit_bias", json!({"100": 1})),
    ] {
        let message = refusal(json!({field: value}), field);
        assert!(
            message.contains("found 100, allowed: ids below 100"),
            "{message}"
        );
        planned(json!({}), json!({field: value}));
    }
}

#[test]
fn max_length_counts_the_prompt_only_where_somebody_set_it() {
    assert_eq!(planned(json!({}), json!(null)).longest(30), 50);
    assert_eq!(
        planned(json!({"max_length": 20}), json!(null)).longest(10),
        20
    );
    assert_eq!(
        planned(json!({}), json!({"max_length": 25})).longest(10),
        25
    );
}

#[test]
fn a_file_is_not_the_callers_fault() {
    let file = json!({
        "transformers_version": "5.24.0", "_from_model_config": true,
        "num_beams": 1, "use_cache": true, "guidance_scale": 1, "output_scores": false,
        "penalty_alpha": 3, "renormalize_logits": false, "my_key": 5,
    });
    let merged = planned(json!({}), file);
    assert_eq!(warned(&merged), ["penalty_alpha", "my_key"]);
    assert!(
        merged.warnings[0]
            .message
            .contains("the file's 3 has no effect")
    );
    // A config that passes metadata along, as a file does, is accepted.
    planned(json!({"transformers_version": "5.24.0"}), json!(null));

    // Temperature 0 is in many files beside greedy decoding, where it changes nothing.
    let cold = json!({"temperature": 0.0, "pad_token_id": -1});
    assert_eq!(
        warned(&planned(json!({}), cold.clone())),
        ["temperature", "pad_token_id"]
    );
    let error = plan(json!({"do_sample": true}), cold.clone()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("generation_config.json: temperature: found 0")
    );
    planned(json!({"do_sample": true, "temperature": 1}), cold);
    assert!(plan_error(json!({"max_new_tokens": "20"})).contains("max_new_tokens"));
    assert!(plan_error(json!([1])).contains("generation_config.json is [1], allowed: an object"));
}

fn plan_error(file: serde_json::Value) -> String {
    plan(json!({}), file).unwrap_err().to_string()
}

/// A step of beam search looks at as many continuations as it takes to have enough that do not end: end tokens
/// count once, and there are no more continuations than tokens.
#[test]
fn end_tokens_that_are_named_twice_count_once() {
    let considered = |eos: serde_json::Value| {
        let plan = planned(json!({"num_beams": 2, "eos_token_id": eos}), json!(null));
        plan.tactics.beams.unwrap().considered
    };
    assert_eq!(considered(json!(2)), 4);
    assert_eq!(considered(json!([2, 5, 2])), 6);
    assert_eq!(considered(json!(vec![2; 1 << 20])), 4);
    assert_eq!(considered((0..100).collect()), 200);
}

/// The values of a plan, passed as a call, make the same plan.
#[test]
fn the_values_of_a_plan_can_be_passed_again() {
    let full = json!({
        "do_sample": true, "seed": 3, "forced_eos_token_id": [3, 4], "bad_words_ids": [[5]],
        "sequence_bias": [[[1, 2], 0.5]], "logit_bias": {"7": 2}, "suppress_tokens": [9],
        "exponential_decay_length_penalty": [2, 1.5], "watermarking_config": {"bias": 1},
        "max_new_tokens": 4, "stop_strings": "a", "top_h": 0.5,
    });
    for call in [json!({"max_new_tokens": 4}), full] {
        let plan = planned(call, json!(null));
        let values = plan.settings.iter();
        let values = values.map(|setting| (setting.name.to_owned(), setting.value.to_json()));
        let again = planned(values.collect(), json!(null));
        let shown = |plan: &Plan| -> Vec<_> {
            plan.settings
                .iter()
                .map(|s| (s.name, s.value.clone()))
                .collect()
        };
        assert_eq!(shown(&again), shown(&plan));
        assert_eq!(stages(&again), stages(&plan));
    }
}

#[test]
fn a_seed_is_drawn_where_none_is_given_and_can_be_given_again() {
    let drawn = planned(json!({"do_sample": true}), json!(null));
    let (seed, source) = value(&drawn, "seed");
    assert_eq!(source, Source::Library);
    let again = planned(json!({"do_sample": true, "seed": seed}), json!(null));
    assert_eq!(again.selection, drawn.selection);
    let other = planned(json!({"do_sample": true}), json!(null));
    assert_ne!(
        other.selection, drawn.selection,
        "two of 2⁵³ seeds are the same"
    );
}
