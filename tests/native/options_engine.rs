//! Every option that is refused is refused before any work, and the engine is as good as new.

use std::{cell::Cell, rc::Rc};

use decant::{
    error::ErrorKind,
    generation::{
        FIELDS, GenerationConfig, ModelFacts, Value,
        fields::{Kind, Status},
    },
};
use pollster::block_on;
use serde_json::json;

use crate::support::fake::{Setup, only};

/// A value outside what the field allows, of the right type where there is one.
fn outside(kind: Kind) -> Value {
    match kind {
        Kind::Integer(0) => Value::Number(-1.0),
        Kind::Integer(least) => Value::Number(least as f64 - 1.0),
        Kind::Number(_) => Value::Number(f64::INFINITY),
        Kind::Tokens | Kind::SomeTokens | Kind::TokenList => json!([1, -1]).into(),
        Kind::Sequences => json!([[1], []]).into(),
        Kind::Biases => json!([[[1], "1"]]).into(),
        Kind::TokenBiases => json!({"1": 1000}).into(),
        Kind::Decay => json!([1, -1]).into(),
        Kind::Watermark => json!({"bias": null, "greenlist_ratio": 2}).into(),
        Kind::Texts => json!(["a", ""]).into(),
        Kind::Choice(_) | Kind::BooleanOr(_) => Value::Text("something else".into()),
        Kind::Boolean | Kind::OneOf(_) | Kind::Token => Value::Number(-1.0),
    }
}

#[test]
fn a_refused_option_costs_nothing_and_leaves_the_engine_as_it_was() {
    let setup = Setup::new(&["a", "b", "c", "<eos>"]);
    let next = |ids: &[u32]| only((ids.last().unwrap() + 1).min(3), 4);
    let (engine, fake) = setup.engine(next, Rc::new(Cell::new(0.0)));
    let prompt = json!([0]).into();
    let mut refused = 0;
    for field in FIELDS {
        let wrong = match field.status {
            Status::Honoured(kind) => vec![
                outside(kind),
                Value::Number(f64::NAN),
                Value::Object(vec![("no".into(), Value::Boolean(true))]),
            ],
            Status::Refused(_) => vec![Value::Number(17.0)],
            Status::Metadata => continue,
        };
        for value in wrong {
            let call = Value::Object(vec![(field.name.into(), value.clone())]);
            let error = engine.generate(&prompt, &call).err();
            let error = error.unwrap_or_else(|| panic!("{} took {value}", field.name));
            let name = field.name.to_owned();
            assert_eq!(error.kind(), &ErrorKind::InvalidOption { name }, "{error}");
            refused += 1;
        }
        assert_eq!(engine.stats().generations, 0);
        assert_eq!(fake.forwards(), 0, "{} cost work", field.name);
    }
    assert!(refused > 200, "{refused}");
    let mut answer = engine.generate(&prompt, &Value::Null).unwrap();
    assert_eq!(block_on(answer.output()).unwrap().sequences, [[1, 2, 3]]);
}

/// Each field of the contract is either honoured, and then in the configuration, or refused.
#[test]
fn no_field_is_accepted_and_ignored() {
    let model = ModelFacts {
        vocabulary: 4,
        context_length: 8,
        ..ModelFacts::default()
    };
    let config = GenerationConfig::merge(&Value::Null, &Value::Null, &model).unwrap();
    let known: Vec<_> = config
        .settings()
        .iter()
        .map(|setting| setting.name)
        .collect();
    for field in FIELDS {
        let call = Value::Object(vec![(field.name.into(), Value::Number(f64::NAN))]);
        let accepted = GenerationConfig::merge(&call, &Value::Null, &model).is_ok();
        let metadata = field.status == Status::Metadata;
        assert_eq!(accepted, metadata, "{}", field.name);
        let honoured = matches!(field.status, Status::Honoured(_));
        assert_eq!(known.contains(&field.name), honoured, "{}", field.name);
    }
}

/// A file may hold what a call has to override: the model loads, and only calls that leave it as it is fail,
/// saying where the value is from.
#[test]
fn a_file_that_contradicts_itself_spoils_no_call_that_overrides_it() {
    for (file, name, other) in [
        (
            json!({"num_return_sequences": 2}),
            "num_return_sequences",
            json!({"do_sample": true}),
        ),
        (
            json!({"num_beams": 2, "num_return_sequences": 3}),
            "num_return_sequences",
            json!({"num_beams": 3}),
        ),
        (
            json!({"num_beams": 2, "prompt_lookup_num_tokens": 3}),
            "prompt_lookup_num_tokens",
            json!({"num_beams": 1}),
        ),
        (
            json!({"num_beams": 5000}),
            "num_beams",
            json!({"num_beams": 1}),
        ),
        (
            json!({"num_beams": 2, "do_sample": true, "mirostat_mode": 2}),
            "mirostat_mode",
            json!({"mirostat_mode": 0}),
        ),
        (
            json!({"forced_eos_token_id": 1, "suppress_tokens": [1]}),
            "forced_eos_token_id",
            json!({"suppress_tokens": []}),
        ),
        (
            json!({"do_sample": true, "temperature": 0}),
            "temperature",
            json!({"temperature": 1}),
        ),
        (
            json!({"max_new_tokens": "20"}),
            "max_new_tokens",
            json!({"max_new_tokens": 20}),
        ),
    ] {
        let mut setup = Setup::new(&["a", "b", "c", "<eos>"]);
        setup.generation_config = file.clone();
        let (engine, _) = setup.engine(|_| only(3, 4), Rc::default());
        let prompt = json!([0]).into();
        let error = engine.generate(&prompt, &Value::Null).err().unwrap();
        let message = error.to_string();
        let begin = format!("generation_config.json: {name}: ");
        assert!(message.starts_with(&begin), "{message}");
        assert!(message.ends_with("to override the file"), "{message}");
        let name = name.to_owned();
        assert_eq!(error.kind(), &ErrorKind::InvalidOption { name });
        if let Err(error) = engine.generate(&prompt, &other.clone().into()) {
            panic!("{file} with {other}: {error}");
        }
    }
}
