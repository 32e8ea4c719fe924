//! Every option there is, as data: name, TypeScript type, default, meaning, and what is allowed.
//!
//! The names, defaults and ranges are those of Hugging Face transformers' `GenerationConfig` (version
//! 5.24), plus `seed`. A field is either honoured, with the check its values must pass, or refused
//! with a reason; validation, the plan, the TypeScript types and the documentation all read this table.

mod table;

pub use table::FIELDS;

use super::value::Value;
use crate::error::{Error, Result};

/// One option.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Field {
    /// The name, as in a `generation_config.json`.
    pub name: &'static str,
    /// The TypeScript type of a value.
    pub typescript: &'static str,
    /// What holds when no layer gives a value, as JSON.
    pub default: &'static str,
    /// What becomes of a value.
    pub status: Status,
    /// What it does, in one line.
    pub doc: &'static str,
}

/// What becomes of a field's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Status {
    /// It takes effect, if it is of this kind.
    Honoured(Kind),
    /// It is refused, for this reason.
    Refused(&'static str),
    /// It describes the file it stands in and sets nothing.
    Metadata,
}

/// What a value may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// True or false.
    Boolean,
    /// A whole number from the first to [`LARGEST_INTEGER`].
    Integer(u64),
    /// A finite number in a range.
    Number(Range),
    /// A token id.
    Token,
    /// A token id, or a list of them.
    Tokens,
    /// A text that is not empty, or a list of them.
    Texts,
}

/// The numbers a field allows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Range {
    /// Greater than 0.
    Positive,
    /// 0 or greater.
    NotNegative,
    /// From 0 to 1, both included.
    UnitInterval,
}

/// A value that passed its field's check.
#[derive(Debug, Clone, PartialEq)]
pub enum Checked {
    /// Of [`Kind::Boolean`].
    Boolean(bool),
    /// Of [`Kind::Integer`].
    Integer(u64),
    /// Of [`Kind::Number`].
    Number(f64),
    /// Of [`Kind::Token`] or [`Kind::Tokens`].
    Tokens(Vec<u32>),
    /// Of [`Kind::Texts`].
    Texts(Vec<String>),
}

/// 2⁵³ − 1, the largest integer whose neighbours a double can tell apart.
pub const LARGEST_INTEGER: u64 = (1 << 53) - 1;

/// The field called `name`.
pub fn find(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.name == name)
}

impl Field {
    /// Checks a value that is not null. The error names the field, what was found and what is allowed.
    pub fn check(&self, value: &Value) -> Result<Checked> {
        let kind = match self.status {
            Status::Honoured(kind) => kind,
            Status::Refused(reason) => {
                let message = format!("this option is not supported: {reason}");
                return Err(Error::option(self.name, message));
            }
            Status::Metadata => return Err(Error::internal("metadata is never checked")),
        };
        kind.check(value).ok_or_else(|| {
            let hint = match (self.name, value) {
                ("temperature", Value::Number(0.0)) => {
                    "; for greedy decoding set do_sample to false"
                }
                _ => "",
            };
            let allowed = kind.allowed();
            Error::option(
                self.name,
                format!("found {value}, allowed: {allowed}{hint}"),
            )
        })
    }

    /// Whether `value` asks for exactly what happens when the field is not set.
    pub fn is_neutral(&self, value: &Value) -> bool {
        let default: serde_json::Value =
            serde_json::from_str(self.default).expect("the table's defaults are JSON");
        // Files spell "off" as null, false or the default; a guidance scale of 1 is off too.
        *value == Value::Null
            || *value == Value::from(&default)
            || (default.is_null() && *value == Value::Boolean(false))
            || (self.name == "guidance_scale" && *value == Value::Number(1.0))
    }
}

impl Kind {
    fn check(self, value: &Value) -> Option<Checked> {
        match (self, value) {
            (Self::Boolean, Value::Boolean(value)) => Some(Checked::Boolean(*value)),
            (Self::Integer(least), Value::Number(number)) => integer(*number)
                .filter(|integer| *integer >= least)
                .map(Checked::Integer),
            (Self::Number(range), Value::Number(number)) => {
                range.contains(*number).then_some(Checked::Number(*number))
            }
            (Self::Token | Self::Tokens, Value::Number(_)) => {
                token(value).map(|id| Checked::Tokens(vec![id]))
            }
            (Self::Tokens, Value::List(values)) => {
                let ids = values.iter().map(token).collect::<Option<_>>()?;
                Some(Checked::Tokens(ids))
            }
            (Self::Texts, Value::Text(_)) => text(value).map(|text| Checked::Texts(vec![text])),
            (Self::Texts, Value::List(values)) => {
                let texts = values.iter().map(text).collect::<Option<_>>()?;
                Some(Checked::Texts(texts))
            }
            _ => None,
        }
    }

    /// What is allowed, in words.
    pub fn allowed(self) -> String {
        match self {
            Self::Boolean => "true or false".into(),
            Self::Integer(least) => format!("an integer from {least} to {LARGEST_INTEGER}"),
            Self::Number(Range::Positive) => "a finite number above 0".into(),
            Self::Number(Range::NotNegative) => "a finite number from 0 up".into(),
            Self::Number(Range::UnitInterval) => "a number from 0 to 1".into(),
            Self::Token => "a token id (an integer from 0 up)".into(),
            Self::Tokens => "a token id (an integer from 0 up) or a list of token ids".into(),
            Self::Texts => "a text that is not empty, or a list of such texts".into(),
        }
    }
}

impl Range {
    fn contains(self, number: f64) -> bool {
        number.is_finite()
            && match self {
                Self::Positive => number > 0.0,
                Self::NotNegative => number >= 0.0,
                Self::UnitInterval => (0.0..=1.0).contains(&number),
            }
    }
}

/// The field name that `name` was probably meant to be: written in another style, cut short, or with
/// few letters wrong.
pub fn nearest(name: &str) -> Option<&'static str> {
    let plain = |name: &str| name.replace(['_', '-'], "").to_lowercase();
    let name = plain(name);
    let cost = |field: &Field| {
        let field = plain(field.name);
        let cut_short = name.len() >= 4 && field.starts_with(&name);
        if cut_short {
            1
        } else {
            distance(&name, &field)
        }
    };
    // Supported fields first, so that they win among equally near ones.
    let (honoured, others): (Vec<_>, Vec<_>) = FIELDS
        .iter()
        .partition(|field| matches!(field.status, Status::Honoured(_)));
    let (field, cost) = honoured
        .into_iter()
        .chain(others)
        .map(|field| (field, cost(field)))
        .min_by_key(|(_, cost)| *cost)?;
    (cost <= (name.len() / 3).max(2)).then_some(field.name)
}

/// Letters to insert, delete or replace to get from one word to the other (Levenshtein 1966).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for j in 0..to.len() {
            let replaced = diagonal + usize::from(letter != to[j]);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

fn integer(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..=LARGEST_INTEGER as f64).contains(&number))
        .then_some(number as u64)
}

fn token(value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => u32::try_from(integer(*number)?).ok(),
        _ => None,
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) if !text.is_empty() => Some(text.clone()),
        _ => None,
    }
}
