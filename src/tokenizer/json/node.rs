//! A part of `tokenizer.json` and its place, for errors that name it.

use serde_json::Value;

use super::super::invalid;
use crate::error::{Error, Result};

/// A JSON value and where it stands.
pub(super) struct Node<'v> {
    path: String,
    value: &'v Value,
}

impl<'v> Node<'v> {
    /// A top-level entry.
    pub fn root(name: &str, value: &'v Value) -> Self {
        Self {
            path: name.to_owned(),
            value,
        }
    }

    /// Whether the part is absent.
    pub fn is_null(&self) -> bool {
        self.value.is_null()
    }

    /// The part's `type`.
    pub fn kind(&self) -> Result<&'v str> {
        self.str("type")
    }

    /// A field; absent is null.
    pub fn field(&self, name: &str) -> Self {
        Self {
            path: format!("{}.{name}", self.path),
            value: &self.value[name],
        }
    }

    /// The elements of the list in a field.
    pub fn list(&self, name: &str) -> Result<Vec<Self>> {
        let field = self.field(name);
        let list = field
            .value
            .as_array()
            .ok_or_else(|| field.wrong("a list"))?;
        Ok(list
            .iter()
            .enumerate()
            .map(|(i, value)| Self {
                path: format!("{}[{i}]", field.path),
                value,
            })
            .collect())
    }

    /// A text.
    pub fn str(&self, name: &str) -> Result<&'v str> {
        let field = self.field(name);
        field.value.as_str().ok_or_else(|| field.wrong("a text"))
    }

    /// A text of one character.
    pub fn char(&self, name: &str) -> Result<char> {
        let mut chars = self.str(name)?.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) => Ok(c),
            _ => Err(self.field(name).wrong("one character")),
        }
    }

    /// Yes or no.
    pub fn bool(&self, name: &str) -> Result<bool> {
        let field = self.field(name);
        field
            .value
            .as_bool()
            .ok_or_else(|| field.wrong("true or false"))
    }

    /// Yes or no, with a value for when the field is absent.
    pub fn bool_or(&self, name: &str, default: bool) -> Result<bool> {
        if self.field(name).is_null() {
            Ok(default)
        } else {
            self.bool(name)
        }
    }

    /// A whole number from 0.
    pub fn number(&self, name: &str) -> Result<usize> {
        let field = self.field(name);
        field
            .value
            .as_u64()
            .and_then(|n| usize::try_from(n).ok())
            .ok_or_else(|| field.wrong("a whole number"))
    }

    /// The value itself.
    pub fn value(&self) -> &'v Value {
        self.value
    }

    /// An error for a value that is not what belongs here.
    pub fn wrong(&self, expected: &str) -> Error {
        let found = self.value.to_string();
        let found: String = found.chars().take(60).collect();
        invalid(format!(
            "tokenizer.json: {} is {found}, expected {expected}",
            self.path
        ))
    }

    /// An error for a type that is not known.
    pub fn unknown(&self, kind: &str, known: &str) -> Error {
        self.unsupported(format!(
            "type {kind:?} is not supported, supported are {known}"
        ))
    }

    /// An error for something that is not supported.
    pub fn unsupported(&self, what: impl AsRef<str>) -> Error {
        Error::unsupported(format!("tokenizer.json: {}: {}", self.path, what.as_ref()))
    }

    /// An error of the crate about this part.
    pub fn failed(&self, error: impl std::fmt::Display) -> Error {
        invalid(format!("tokenizer.json: {}: {error}", self.path))
    }
}
