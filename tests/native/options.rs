//! The table of options: every field of the contract is there, and refuses what it does not allow.
//! Failure B03 of comparable systems.

use decant::{
    error::ErrorKind,
    generation::{
        FIELDS, ModelFacts, Plan, Value,
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

/// The field names of the contract (section 1 of the notes on `generate()`), and the extension.
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
        num_beam_groups constraints force_words_ids prefill_chunk_size seed \
        transformers_version _from_model_config";
    let mut contract: Vec<_> = contract.split_whitespace().collect();
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
    match (name, value) {
        ("do_sample", Value::Boolean(_)) => true,
        ("temperature" | "repetition_penalty", Value::Number(n)) => n.is_finite() && *n > 0.0,
        ("max_time", Value::Number(n)) => n.is_finite() && *n >= 0.0,
        ("top_p" | "min_p", Value::Number(n)) => (0.0..=1.0).contains(n),
        ("stop_strings", Value::Text(text)) => !text.is_empty(),
        _ => false,
    }
}

#[test]
fn every_field_refuses_wrong_types_and_ranges_by_name() {
    let mut refused = 0;
    for field in FIELDS {
        for value in anything() {
            let call = Value::Object(vec![(field.name.into(), value.clone())]);
            let result = Plan::new(&call, &Value::Null, &model());
            if field.status == Status::Metadata || is_allowed(field.name, &value) {
                result.unwrap_or_else(|error| panic!("{} {value}: {error}", field.name));
                continue;
            }
            let error = result.expect_err(&format!("{} took {value}", field.name));
            let name = field.name.to_owned();
            assert_eq!(error.kind(), &ErrorKind::InvalidOption { name });
            if let Status::Honoured(_) = field.status {
                let message = error.to_string();
                let both = format!("found {value}, allowed: ");
                assert!(message.contains(&both), "{message}");
            }
            refused += 1;
        }
    }
    assert!(refused > 1000, "only {refused} refusals were seen");
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
    assert_eq!(
        Kind::Number(Range::UnitInterval).allowed(),
        "a number from 0 to 1"
    );
}

#[test]
fn unsupported_options_are_refused_with_a_reason() {
    let beams = refusal(json!({"num_beams": 4}), "num_beams");
    assert!(beams.contains("beam search"), "{beams}");
    // Also where the value would change nothing: the rule is the name.
    refusal(json!({"use_cache": true}), "use_cache");
    for field in FIELDS {
        if let Status::Refused(reason) = field.status {
            assert!(!reason.is_empty());
            let message = refusal(json!({field.name: 1}), field.name);
            assert!(message.contains(reason), "{message}");
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
