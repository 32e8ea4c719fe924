//! Typed access to metadata: what converts, and that what does not names its key.

use decant::{
    error::{ErrorKind, Result},
    weights::{Metadata, Value},
};

fn metadata() -> Metadata {
    let entries = [
        ("unsigned", Value::Unsigned(30)),
        ("signed", Value::Signed(30)),
        ("negative", Value::Signed(-1)),
        ("large", Value::Unsigned(1 << 32)),
        ("float", Value::Float(0.5)),
        ("infinite", Value::Float(f64::INFINITY)),
        ("beyond single", Value::Float(1e300)),
        ("bool", Value::Bool(true)),
        ("text", Value::String("text".into())),
        ("texts", Value::Strings(vec!["a".into()])),
        ("bytes", Value::Bytes(vec![1])),
        ("integers", Value::Integers(vec![1])),
        ("floats", Value::Floats(vec![1.0])),
        ("bools", Value::Bools(vec![true])),
    ];
    Metadata(entries.map(|(key, value)| (key.to_string(), value)).into())
}

/// Fails unless exactly the keys in `allowed` give a value, others an error that names them, and an
/// absent key nothing.
fn only<T>(allowed: &[&str], get: impl Fn(&str) -> Result<Option<T>>) {
    for key in metadata().0.keys() {
        match get(key) {
            Ok(value) => assert!(value.is_some() && allowed.contains(&key.as_str()), "{key}"),
            Err(error) => {
                assert!(!allowed.contains(&key.as_str()), "{key}: {error}");
                assert_eq!(
                    error.kind(),
                    &ErrorKind::InvalidWeights { name: key.clone() }
                );
                assert!(error.to_string().contains("expected"), "{error}");
            }
        }
    }
    assert!(get("absent").unwrap().is_none());
}

#[test]
fn getters_take_their_own_type() {
    let data = metadata();
    only(&["unsigned", "signed"], |key| data.u32(key));
    only(
        &["unsigned", "signed", "negative", "large", "float"],
        |key| data.f32(key),
    );
    only(&["bool"], |key| data.bool(key));
    only(&["text"], |key| data.str(key));
    only(&["texts"], |key| data.strings(key));
    only(&["integers"], |key| data.integers(key));
}

#[test]
fn integers_are_numbers_too() {
    let data = metadata();
    assert_eq!(data.u32("unsigned").unwrap(), Some(30));
    assert_eq!(data.u32("signed").unwrap(), Some(30));
    assert_eq!(data.f32("unsigned").unwrap(), Some(30.0));
    assert_eq!(data.f32("negative").unwrap(), Some(-1.0));
    assert_eq!(data.f32("float").unwrap(), Some(0.5));
}

#[test]
fn errors_say_what_was_found() {
    let error = metadata().integers("bytes").unwrap_err().to_string();
    assert_eq!(
        error,
        "bytes: expected a list of integers, found a list of 1 bytes"
    );
}
