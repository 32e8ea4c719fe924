//! Plain data as a caller writes it: the values of a configuration and of a prompt.
//!
//! JSON cannot hold NaN and JavaScript can, so this is JSON's data model with every number a double.
//! A key whose value is `undefined` is left out by whoever converts from JavaScript.

use std::fmt;

/// A value of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`: not given.
    Null,
    /// A truth value.
    Boolean(bool),
    /// A number, NaN and the infinities included.
    Number(f64),
    /// Text.
    Text(String),
    /// An array.
    List(Vec<Value>),
    /// An object, in the order of its keys.
    Object(Vec<(String, Value)>),
}

impl Value {
    /// The value of `key`, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The same as JSON; numbers that JSON cannot hold become null, as `JSON.stringify` does.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Boolean(value) => (*value).into(),
            Self::Number(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
                (*value as i64).into()
            }
            Self::Number(value) => (*value).into(),
            Self::Text(value) => value.as_str().into(),
            Self::List(values) => values.iter().map(Self::to_json).collect(),
            Self::Object(entries) => entries
                .iter()
                .map(|(key, value)| (key.clone(), value.to_json()))
                .collect(),
        }
    }
}

impl From<&serde_json::Value> for Value {
    fn from(value: &serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Boolean(*value),
            // Without arbitrary precision every JSON number is representable as a double.
            serde_json::Value::Number(value) => Self::Number(value.as_f64().unwrap_or(f64::NAN)),
            serde_json::Value::String(value) => Self::Text(value.clone()),
            serde_json::Value::Array(values) => Self::List(values.iter().map(Self::from).collect()),
            serde_json::Value::Object(entries) => Self::Object(
                entries
                    .iter()
                    .map(|(key, value)| (key.clone(), Self::from(value)))
                    .collect(),
            ),
        }
    }
}

impl From<serde_json::Value> for Value {
    fn from(value: serde_json::Value) -> Self {
        Self::from(&value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Number(value as f64)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

/// Token ids.
impl From<&[u32]> for Value {
    fn from(ids: &[u32]) -> Self {
        Self::List(ids.iter().map(|&id| Self::Number(id.into())).collect())
    }
}

/// What a message says was found: short, with its type where the bare value would mislead.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(value) if value.chars().count() > 40 => {
                let start: String = value.chars().take(40).collect();
                write!(f, "the text {start:?}…")
            }
            Self::Text(value) => write!(f, "the text {value:?}"),
            Self::List(values) if values.len() > 8 => write!(f, "a list of {}", values.len()),
            Self::List(values) => {
                f.write_str("[")?;
                for (i, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Self::Object(_) => f.write_str("an object"),
        }
    }
}
