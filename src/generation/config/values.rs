//! Types of the configuration's values: from a checked value, and back to plain data for the plan.

use super::super::{
    fields::{Checked, FIELDS, Field, Status, Watermark},
    value::Value,
};

/// When beam search may stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyStopping {
    /// By a heuristic: when an improvement is unlikely.
    No,
    /// As soon as there are as many finished candidates as beams.
    Yes,
    /// Only when there can be no better candidate.
    Never,
}

/// A value of the configuration.
pub(super) trait FieldValue: Sized {
    /// The value that passed its field's check, if it is of this type.
    fn from_checked(checked: Checked) -> Option<Self>;

    /// The value where no layer gives one, if the type has such a value.
    fn absent() -> Option<Self> {
        None
    }

    /// The value as a caller writes it.
    fn to_value(&self) -> Value;
}

/// The honoured field called `name`; the configuration holds no other.
pub(super) fn honoured(name: &str) -> &'static Field {
    let mut honoured = FIELDS.iter();
    honoured
        .find(|field| field.name == name && matches!(field.status, Status::Honoured(_)))
        .expect("the table honours every field of the config")
}

impl FieldValue for bool {
    fn from_checked(checked: Checked) -> Option<Self> {
        match checked {
            Checked::Boolean(value) => Some(value),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Value::Boolean(*self)
    }
}

impl FieldValue for f64 {
    fn from_checked(checked: Checked) -> Option<Self> {
        match checked {
            Checked::Number(value) => Some(value),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Value::Number(*self)
    }
}

impl FieldValue for u64 {
    fn from_checked(checked: Checked) -> Option<Self> {
        match checked {
            Checked::Integer(value) => Some(value),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Value::Number(*self as f64)
    }
}

/// A count; counts beyond what this machine can address all mean "as many as fit".
impl FieldValue for usize {
    fn from_checked(checked: Checked) -> Option<Self> {
        u64::from_checked(checked).map(saturated)
    }

    fn to_value(&self) -> Value {
        Value::Number(*self as f64)
    }
}

/// A token id.
impl FieldValue for u32 {
    fn from_checked(checked: Checked) -> Option<Self> {
        Vec::from_checked(checked)?.first().copied()
    }

    fn to_value(&self) -> Value {
        Value::Number((*self).into())
    }
}

impl FieldValue for &'static str {
    fn from_checked(checked: Checked) -> Option<Self> {
        match checked {
            Checked::Choice(value) => Some(value),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Value::Text((*self).into())
    }
}

impl FieldValue for String {
    fn from_checked(_: Checked) -> Option<Self> {
        None
    }

    fn to_value(&self) -> Value {
        Value::Text(self.clone())
    }
}

impl FieldValue for EarlyStopping {
    fn from_checked(checked: Checked) -> Option<Self> {
        match checked {
            Checked::Boolean(false) => Some(Self::No),
            Checked::Boolean(true) => Some(Self::Yes),
            Checked::Choice(_) => Some(Self::Never),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Self::No => Value::Boolean(false),
            Self::Yes => Value::Boolean(true),
            Self::Never => Value::Text("never".into()),
        }
    }
}

impl FieldValue for Watermark {
    fn from_checked(checked: Checked) -> Option<Self> {
        match checked {
            Checked::Watermark(value) => Some(value),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Watermark::to_value(*self)
    }
}

/// Start and factor of a decay.
impl FieldValue for (usize, f64) {
    fn from_checked(checked: Checked) -> Option<Self> {
        match checked {
            Checked::Decay(start, factor) => Some((saturated(start), factor)),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Value::List(vec![self.0.to_value(), self.1.to_value()])
    }
}

/// A token and its bias.
impl FieldValue for (u32, f64) {
    fn from_checked(_: Checked) -> Option<Self> {
        None
    }

    fn to_value(&self) -> Value {
        Value::List(vec![self.0.to_value(), self.1.to_value()])
    }
}

/// A sequence and its bias.
impl FieldValue for (Vec<u32>, f64) {
    fn from_checked(_: Checked) -> Option<Self> {
        None
    }

    fn to_value(&self) -> Value {
        Value::List(vec![self.0.to_value(), self.1.to_value()])
    }
}

impl<T: FieldValue> FieldValue for Option<T> {
    fn from_checked(checked: Checked) -> Option<Self> {
        T::from_checked(checked).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::to_value)
    }
}

/// A list's elements know how to show themselves; which list a checked value is, [`ListOf`] knows.
impl<T: ListOf> FieldValue for Vec<T> {
    fn from_checked(checked: Checked) -> Option<Self> {
        T::list(checked)
    }

    fn absent() -> Option<Self> {
        Some(Vec::new())
    }

    fn to_value(&self) -> Value {
        T::list_value(self)
    }
}

/// What the elements of a list are.
pub(super) trait ListOf: FieldValue {
    /// The list in `checked`, if it is one of these.
    fn list(checked: Checked) -> Option<Vec<Self>>;

    /// The list as a caller writes it.
    fn list_value(list: &[Self]) -> Value {
        Value::List(list.iter().map(Self::to_value).collect())
    }
}

macro_rules! list_of {
    ($($type:ty: $variant:ident,)*) => {$(
        impl ListOf for $type {
            fn list(checked: Checked) -> Option<Vec<Self>> {
                match checked {
                    Checked::$variant(values) => Some(values),
                    _ => None,
                }
            }
        }
    )*};
}

list_of! {
    u32: Tokens,
    String: Texts,
}

/// Sequences; a caller who has none leaves the field out.
impl ListOf for Vec<u32> {
    fn list(checked: Checked) -> Option<Vec<Self>> {
        match checked {
            Checked::Sequences(values) => Some(values),
            _ => None,
        }
    }

    fn list_value(list: &[Self]) -> Value {
        unless_empty(list, || list.iter().map(Self::to_value).collect())
    }
}

/// Biases of sequences; a caller who has none leaves the field out.
impl ListOf for (Vec<u32>, f64) {
    fn list(checked: Checked) -> Option<Vec<Self>> {
        match checked {
            Checked::Biases(values) => Some(values),
            _ => None,
        }
    }

    fn list_value(list: &[Self]) -> Value {
        unless_empty(list, || list.iter().map(Self::to_value).collect())
    }
}

/// Biases of tokens, an object.
impl ListOf for (u32, f64) {
    fn list(checked: Checked) -> Option<Vec<Self>> {
        match checked {
            Checked::TokenBiases(values) => Some(values),
            _ => None,
        }
    }

    fn list_value(list: &[Self]) -> Value {
        let entries = list
            .iter()
            .map(|(id, bias)| (id.to_string(), Value::Number(*bias)));
        match list {
            [] => Value::Null,
            _ => Value::Object(entries.collect()),
        }
    }
}

fn unless_empty<T>(list: &[T], values: impl FnOnce() -> Vec<Value>) -> Value {
    match list {
        [] => Value::Null,
        _ => Value::List(values()),
    }
}

fn saturated(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
