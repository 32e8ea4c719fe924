//! The table of options: every field of the contract is there, and refuses what it does not allow.
//! Failure B03 of comparable systems.

use decant::{
    error::ErrorKind,
    generation::{
        FIELDS, GenerationConfig, ModelFacts, Plan, Value,
        fields::{self, Kind, Range, Status},
    },
};
use serde_json::json;

fn model() -> ModelFacts {
    ModelFacts {
        vocabulary: 100,
        context_length: 64,
        ..ModelFacts::default()
    }
}

/// Fails unless `call` is accepted.
fn ok(call: serde_json::Value) {
    Plan::new(&call.into(), &Value::Null, &model()).unwrap();
}

/// The message of the refusal, which must name `field`.
fn refusal(call: serde_json::Value, field: &str) -> String {
    let error = Plan::new(&call.clone().into(), &Value::Null, &model());
    let error = error.expect_err(&call.to_string());
    let name = field.to_owned();
    assert_eq!(error.kind(), &ErrorKind::InvalidOption { name }, "{call}");
    error.to_string()
}

/// The field names of the contract (section 1 of the notes on `generate()`), and the extensions.
#[test]
fn the_table_holds_every_field_of_the_contract() {
    let contract = "max_length max_new_tokens min_length min_new_tokens early_stopping max_time \
        stop_strings do_sample num_beams use_mtp use_cache cache_implementation cache_config \
        max_cache_len temperature top_k top_p min_p top_h typical_p epsilon_cutoff eta_cutoff \
        repetition_penalty encoder_repetition_penalty length_penalty no_repeat_ngram_size \
        bad_words_ids renormalize_logits forced_bos_token_id forced_eos_token_id \
        remove_invalid_values exponential_decay_length_penalty suppress_tokens \
        begin_suppress_tokens sequence_bias token_healing guidance_scale watermarking_config \
        num_return_sequences output_attentions output_hidden_states output_scores output_logits \
        return_dict_in_generate pad_token_id bos_token_id eos_token_id \
        encoder_no_repeat_ngram_size decoder_start_token_id is_assistant num_assistant_tokens \
        num_assistant_tokens_schedule assistant_confidence_threshold prompt_lookup_num_tokens \
        max_matching_ngram_size assistant_early_exit assistant_lookbehind target_lookbehind \
        assistant_ensemble_weight speculation_type compile_config disable_compile \
        continuous_batching_config low_memory penalty_alpha dola_layers diversity_penalty \
        num_beam_groups constraints force_words_ids prefill_chunk_size \
        transformers_version _from_model_config";
    let extensions = "seed logit_bias frequency_penalty presence_penalty dry_multiplier dry_base \
        dry_allowed_length dry_penalty_last_n dry_sequence_breaker_ids top_n_sigma xtc_probability \
        xtc_threshold mirostat_mode mirostat_tau mirostat_eta top_logprobs";
    let names = contract
        .split_whitespace()
        .chain(extensions.split_whitespace());
    let mut contract: Vec<_> = names.collect();
    let mut table: Vec<_> = FIELDS.iter().map(|field| field.name).collect();
    contract.sort_unstable();
    table.sort_unstable();
    assert_eq!(table, contract);
}

/// Values of every type, none of which a field of another type takes.
fn anything() -> Vec<Value> {
    let number = Value::Number;
    vec![
        Value::Boolean(true),
        Value::Text("0.5".into()),
        Value::Text(String::new()),
        number(f64::NAN),
        number(f64::INFINITY),
        number(f64::NEG_INFINITY),
        number(-1.0),
        number(-0.5),
        number(0.5),
        number(1.5),
        number(1e300),
        number(5e-324),
        Value::List(vec![number(1.5)]),
        Value::List(vec![Value::Null]),
        Value::List(vec![Value::List(vec![number(1.0)])]),
        Value::Object(vec![("a".into(), number(1.0))]),
    ]
}

/// What the documentation says of each field's range, written again by hand.
fn is_allowed(name: &str, value: &Value) -> bool {
    const FLAGS: [&str; 9] = [
        "do_sample",
        "early_stopping",
        "use_cache",
        "renormalize_logits",
        "remove_invalid_values",
        "token_healing",
        "output_scores",
        "output_logits",
        "return_dict_in_generate",
    ];
    match (name, value) {
        (flag, Value::Boolean(_)) => FLAGS.contains(&flag),
        (
            "temperature"
            | "repetition_penalty"
            | "encoder_repetition_penalty"
            | "top_n_sigma"
            | "mirostat_tau"
            | "mirostat_eta",
            Value::Number(n),
        ) => n.is_finite() && *n > 0.0,
        ("length_penalty" | "guidance_scale", Value::Number(n)) => n.is_finite(),
        ("max_time" | "dry_multiplier", Value::Number(n)) => n.is_finite() && *n >= 0.0,
        (
            "top_p"
            | "min_p"
            | "xtc_probability"
            | "xtc_threshold"
            | "assistant_confidence_threshold",
            Value::Number(n),
        ) => (0.0..=1.0).contains(n),
        ("top_h" | "typical_p", Value::Number(n)) => *n > 0.0 && *n <= 1.0,
        ("epsilon_cutoff" | "eta_cutoff", Value::Number(n)) => (0.0..1.0).contains(n),
        ("assistant_ensemble_weight", Value::Number(n)) => *n > 0.0 && *n < 1.0,
        ("frequency_penalty" | "presence_penalty", Value::Number(n)) => (-2.0..=2.0).contains(n),
        ("dry_base", Value::Number(n)) => (1.0..=1e6).contains(n),
        ("bad_words_ids", Value::List(values)) => matches!(values[0], Value::List(_)),
        ("stop_strings", Value::Text(text)) => !text.is_empty(),
        _ => false,
    }
}

/// The plan is made before any work, so what it refuses costs nothing. Whether an option that is
/// allowed works is for its own tests.
#[test]
fn every_field_refuses_wrong_types_and_ranges_by_name() {
    let mut refused = 0;
    for field in FIELDS {
        for value in anything() {
            let call = Value::Object(vec![(field.name.into(), value.clone())]);
            let result = GenerationConfig::merge(&call, &Value::Null, &model());
            if field.status == Status::Metadata || is_allowed(field.name, &value) {
                result.unwrap_or_else(|error| panic!("{} {value}: {error}", field.name));
                continue;
            }
            let error = result.expect_err(&format!("{} took {value}", field.name));
            let name = field.name.to_owned();
            assert_eq!(error.kind(), &ErrorKind::InvalidOption { name });
            let message = error.to_string();
            let found = format!("found {value}");
            assert!(
                message.contains(&found) || message.contains("found a: 1"),
                "{message}"
            );
            if let Status::Honoured(_) = field.status {
                assert!(message.contains(", allowed: "), "{message}");
            }
            refused += 1;
        }
    }
    assert!(refused > 1200, "only {refused} refusals were seen");
}

/// Every honoured field takes its default, and the configuration and the plan show it.
#[test]
fn every_honoured_field_is_in_the_configuration_with_its_default() {
    let config = GenerationConfig::merge(&Value::Null, &Value::Null, &model()).unwrap();
    let settings = config.settings();
    for field in FIELDS {
        let setting = settings.iter().find(|setting| setting.name == field.name);
        let Status::Honoured(_) = field.status else {
            assert_eq!(setting, None, "{}", field.name);
            continue;
        };
        let setting = setting.unwrap_or_else(|| panic!("{} is not in the plan", field.name));
        let empty =
            setting.value == Value::List(Vec::new()) && field.default_value() == Value::Null;
        assert!(
            empty || setting.value == field.default_value(),
            "{}",
            field.name
        );
        let call = Value::Object(vec![(field.name.into(), field.default_value())]);
        GenerationConfig::merge(&call, &Value::Null, &model()).unwrap();
    }
    let honoured = FIELDS
        .iter()
        .filter(|field| matches!(field.status, Status::Honoured(_)));
    assert_eq!(settings.len(), honoured.count());
}

#[test]
fn limits_of_ranges_are_where_the_documentation_says() {
    for p in [json!(0), json!(1), json!(0.5)] {
        ok(json!({"top_p": p}));
        ok(json!({"min_p": p}));
    }
    refusal(json!({"top_p": 1.0000001}), "top_p");
    refusal(json!({"min_p": -0.0000001}), "min_p");
    ok(json!({"seed": fields::LARGEST_INTEGER}));
    refusal(json!({"seed": fields::LARGEST_INTEGER + 1}), "seed");
    refusal(json!({"seed": 1.5}), "seed");
    refusal(json!({"top_k": -1}), "top_k");
    // JavaScript has one type of number: an integral penalty is a penalty.
    ok(json!({"repetition_penalty": 2}));
    ok(json!({"stop_strings": ["a", "b"]}));
    ok(json!({"stop_strings": []}));
    refusal(json!({"stop_strings": ["a", ""]}), "stop_strings");
    ok(json!({"eos_token_id": 99}));
    let outside = refusal(json!({"eos_token_id": [3, 100]}), "eos_token_id");
    assert!(
        outside.contains("found 100, allowed: ids below 100"),
        "{outside}"
    );
    refusal(json!({"eos_token_id": -1}), "eos_token_id");
    refusal(json!({"bos_token_id": 100}), "bos_token_id");
    for empty in ["bad_words_ids", "sequence_bias", "forced_eos_token_id"] {
        refusal(json!({empty: []}), empty);
    }
    refusal(json!({"bad_words_ids": [[1], []]}), "bad_words_ids");
    refusal(json!({"bad_words_ids": [[3, -1]]}), "bad_words_ids");
    refusal(json!({"sequence_bias": [[[1, 2]]]}), "sequence_bias");
    refusal(json!({"sequence_bias": [[[], 1.5]]}), "sequence_bias");
    refusal(json!({"sequence_bias": [[[1], 1.5, 2]]}), "sequence_bias");
    ok(json!({"sequence_bias": [[[0, 2], 1], [[3], -1.5]]}));
    ok(json!({"suppress_tokens": []}));
    ok(json!({"exponential_decay_length_penalty": [0, 1.5]}));
    refusal(
        json!({"exponential_decay_length_penalty": [0.5, 1.5]}),
        "exponential_decay_length_penalty",
    );
    refusal(
        json!({"exponential_decay_length_penalty": [1, 0]}),
        "exponential_decay_length_penalty",
    );
    ok(json!({"logit_bias": {"0": -100, "99": 100}}));
    for bias in [
        json!({"01": 1}),
        json!({"a": 1}),
        json!({"1": 101}),
        json!({"1": null}),
    ] {
        refusal(json!({"logit_bias": bias}), "logit_bias");
    }
    refusal(json!({"mirostat_mode": 1}), "mirostat_mode");
    refusal(
        json!({"cache_implementation": "fast"}),
        "cache_implementation",
    );
    refusal(json!({"early_stopping": "sometimes"}), "early_stopping");
    refusal(
        json!({"num_assistant_tokens_schedule": "fast"}),
        "num_assistant_tokens_schedule",
    );
    ok(json!({"watermarking_config": {}}));
    ok(
        json!({"watermarking_config": {"greenlist_ratio": 0, "bias": -1, "hashing_key": 0, "context_width": 3}}),
    );
    for (key, value) in [
        ("greenlist_ratio", json!(1.5)),
        ("bias", json!("2")),
        ("hashing_key", json!(-1)),
        ("seeding_scheme", json!("righthash")),
        ("context_width", json!(0)),
        ("ngram_len", json!(5)),
    ] {
        let message = refusal(
            json!({"watermarking_config": {key: value}}),
            "watermarking_config",
        );
        assert!(message.contains(&format!("found {key}: ")), "{message}");
    }
    assert_eq!(
        Kind::Number(Range::UnitInterval).allowed(),
        "a number from 0 to 1"
    );
}

#[test]
fn unsupported_options_are_refused_with_a_reason() {
    for field in FIELDS {
        if let Status::Refused(reason) = field.status {
            assert!(!reason.is_empty());
            let message = refusal(json!({field.name: 17}), field.name);
            assert!(message.contains(reason), "{message}");
            // A file that is passed as a call may say what holds anyway.
            let neutral = Value::Object(vec![(field.name.into(), field.default_value())]);
            Plan::new(&neutral, &Value::Null, &model()).unwrap();
        }
    }
}

#[test]
fn unknown_options_are_refused_with_the_nearest_name() {
    let suggested = [
        ("repition_penalty", "repetition_penalty"),
        ("max_tokens", "max_new_tokens"),
        ("maxNewTokens", "max_new_tokens"),
        ("topK", "top_k"),
        ("temprature", "temperature"),
        ("stop", "stop_strings"),
        ("num_beam", "num_beams"),
        ("eos_token_ids", "eos_token_id"),
    ];
    for (wrong, right) in suggested {
        let message = refusal(json!({wrong: 1}), wrong);
        assert!(
            message.contains(&format!("did you mean {right}?")),
            "{message}"
        );
    }
    let far = refusal(json!({"frobnicate": 1}), "frobnicate");
    assert!(!far.contains("did you mean"), "{far}");
    for config in [json!(3), json!("greedy"), json!([]), json!(true)] {
        refusal(config, "config");
    }
}
