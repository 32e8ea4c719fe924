//! Typed access to the keys and values of a model file's header.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// A metadata value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing, said aloud: what the key stands for is off.
    Null,
    /// Any unsigned integer.
    Unsigned(u64),
    /// Any signed integer.
    Signed(i64),
    /// Any float.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// Text.
    String(String),
    /// A list of texts.
    Strings(Vec<String>),
    /// A list of bytes, declared signed or unsigned: opaque data, which no getter takes for numbers.
    Bytes(Vec<u8>),
    /// A list of any other integers.
    Integers(Vec<i64>),
    /// A list of floats.
    Floats(Vec<f64>),
    /// A list of truth values.
    Bools(Vec<bool>),
}

/// Keys and values. Every getter answers `None` where the key is absent or null, and an error that names
/// the key where its value has another type or does not fit.
#[derive(Debug, Clone, Default)]
pub struct Metadata(pub BTreeMap<String, Value>);

impl Metadata {
    /// The value of `key`, unless that is null.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| **value != Value::Null)
    }

    fn wrong<T>(key: &str, wanted: &str, found: &Value) -> Result<Option<T>> {
        Err(Error::weights(
            key,
            format!("expected {wanted}, found {}", found.kind()),
        ))
    }

    /// An integer from 0 to 2³² − 1.
    pub fn u32(&self, key: &str) -> Result<Option<u32>> {
        match self.get(key) {
            None => Ok(None),
            Some(value @ &Value::Unsigned(n)) => u32::try_from(n)
                .map(Some)
                .or_else(|_| Self::wrong(key, "a 32-bit integer", value)),
            Some(value @ &Value::Signed(n)) => u32::try_from(n)
                .map(Some)
                .or_else(|_| Self::wrong(key, "a 32-bit integer", value)),
            Some(value) => Self::wrong(key, "an integer", value),
        }
    }

    /// A number that is finite in single precision, to which it is rounded. Integers count, because
    /// some writers store a whole number such as a rotary base of 10000 as one.
    pub fn f32(&self, key: &str) -> Result<Option<f32>> {
        match self.get(key) {
            None => Ok(None),
            Some(&Value::Float(x)) if (x as f32).is_finite() => Ok(Some(x as f32)),
            Some(&Value::Unsigned(n)) => Ok(Some(n as f32)),
            Some(&Value::Signed(n)) => Ok(Some(n as f32)),
            Some(value) => Self::wrong(key, "a finite number", value),
        }
    }

    /// A list of numbers, each as [`f32`](Self::f32).
    pub fn f32s(&self, key: &str) -> Result<Option<Vec<f32>>> {
        let numbers: Vec<f32> = match self.get(key) {
            None => return Ok(None),
            Some(Value::Floats(numbers)) => numbers.iter().map(|&x| x as f32).collect(),
            Some(Value::Integers(numbers)) => numbers.iter().map(|&n| n as f32).collect(),
            Some(value) => return Self::wrong(key, "a list of numbers", value),
        };
        if numbers.iter().all(|x| x.is_finite()) {
            return Ok(Some(numbers));
        }
        Self::wrong(key, "a list of finite numbers", &self.0[key])
    }

    /// A truth value.
    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        match self.get(key) {
            None => Ok(None),
            Some(&Value::Bool(value)) => Ok(Some(value)),
            Some(value) => Self::wrong(key, "a truth value", value),
        }
    }

    /// Text.
    pub fn str(&self, key: &str) -> Result<Option<&str>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(value) => Self::wrong(key, "text", value),
        }
    }

    /// A list of texts.
    pub fn strings(&self, key: &str) -> Result<Option<&[String]>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Strings(texts)) => Ok(Some(texts)),
            Some(value) => Self::wrong(key, "a list of texts", value),
        }
    }

    /// A list of integers. A list of bytes is not one: no list of numbers that a model has is
    /// stored so, and a file that says it is lies about the type.
    pub fn integers(&self, key: &str) -> Result<Option<&[i64]>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Integers(numbers)) => Ok(Some(numbers)),
            Some(value) => Self::wrong(key, "a list of integers", value),
        }
    }
}

impl Value {
    /// The value, shortened to fit a line.
    pub fn kind(&self) -> String {
        match self {
            Self::Null => "null".into(),
            Self::Unsigned(n) => n.to_string(),
            Self::Signed(n) => n.to_string(),
            Self::Float(x) => x.to_string(),
            Self::Bool(value) => value.to_string(),
            Self::String(text) => {
                format!("the text {:?}", text.chars().take(40).collect::<String>())
            }
            Self::Strings(texts) => format!("a list of {} texts", texts.len()),
            Self::Bytes(bytes) => format!("a list of {} bytes", bytes.len()),
            Self::Integers(numbers) => format!("a list of {} integers", numbers.len()),
            Self::Floats(numbers) => format!("a list of {} floats", numbers.len()),
            Self::Bools(values) => format!("a list of {} truth values", values.len()),
        }
    }
}
