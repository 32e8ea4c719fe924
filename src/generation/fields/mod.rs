//! Every option there is, as data: name, TypeScript type, default, meaning, and what is allowed.
//!
//! The names, defaults and ranges are those of Hugging Face transformers' `GenerationConfig` (version
//! 5.24), and those of extensions that neighbours of it have, each with its source. A field is either
//! honoured, with the check its values must pass, or refused with a reason; validation, the plan, the
//! TypeScript types and the documentation all read this table.

mod kind;
mod table;
mod watermark;

pub use kind::{Checked, Kind, LARGEST_INTEGER, Range};
pub use table::FIELDS;
pub use watermark::{Seeding, Watermark};

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
                let message = format!("found {value}; this option is not supported: {reason}");
                return Err(Error::option(self.name, message));
            }
            Status::Metadata => return Err(Error::internal("metadata is never checked")),
        };
        kind.check(value).map_err(|found| {
            let hint = match (self.name, value) {
                ("temperature", Value::Number(0.0)) => {
                    "; for greedy decoding set do_sample to false"
                }
                _ => "",
            };
            let allowed = kind.allowed();
            Error::option(
                self.name,
                format!("found {found}, allowed: {allowed}{hint}"),
            )
        })
    }

    /// The value that holds when no layer gives one; null where there is none.
    pub fn default_value(&self) -> Value {
        let json: Option<serde_json::Value> = serde_json::from_str(self.default).ok();
        Value::from(json.expect("the table's defaults are JSON"))
    }

    /// Whether `value` asks for exactly what happens when the field is not set: null, the default, or
    /// false where there is no default. A guidance scale of 1 is none.
    pub fn is_neutral(&self, value: &Value) -> bool {
        let default = self.default_value();
        *value == Value::Null
            || *value == default
            || (default == Value::Null && *value == Value::Boolean(false))
            || (self.name == "guidance_scale" && *value == Value::Number(1.0))
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
