//! The Jinja environment of chat templates.

use std::{error::Error as StdError, fmt};

use minijinja::{
    Environment, Error as JinjaError, ErrorKind as JinjaKind, Output, State, Value as JinjaValue,
    filters,
    syntax::SyntaxConfig,
    value::{Kwargs, Tuple, ValueKind},
};
use serde_json::{Map, Value};

use super::{json, methods, refused, tags, time::Moment};
use crate::error::{Error, Result};

/// Renders a template with `context` as its variables.
pub(super) fn render(
    source: &str,
    context: Map<String, Value>,
    now: Option<Moment>,
) -> Result<String> {
    let source = tags::replace_generation(source);
    let mut env = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build();
    env.set_syntax(syntax.map_err(|e| Error::internal(e.to_string()))?);
    env.set_formatter(print);
    env.set_unknown_method_callback(methods::call);
    env.add_filter("tojson", to_json);
    env.add_filter("int", int);
    env.add_filter("float", float);
    env.add_function("raise_exception", raise);
    env.add_function("strftime_now", move |format: &str| {
        let now = now.unwrap_or_else(Moment::system);
        now.format(format)
            .map_err(|message| JinjaError::new(JinjaKind::InvalidOperation, message))
    });
    env.template_from_str(&source)
        .and_then(|template| template.render(value_of(&Value::Object(context))))
        .map_err(|e| explain(&e))
}

/// What the template said when it refused.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Raised {}

fn raise(message: String) -> std::result::Result<JinjaValue, JinjaError> {
    Err(JinjaError::new(JinjaKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

/// Our error for one of the template engine: the template's own words, if it spoke.
fn explain(error: &JinjaError) -> Error {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(Raised(message)) = inner.downcast_ref() {
            return refused(format!("the chat template refused the messages: {message}"));
        }
        cause = inner.source();
    }
    let line = error
        .line()
        .map(|line| format!(" in line {line}"))
        .unwrap_or_default();
    let what = error.detail().map_or_else(
        || error.kind().to_string(),
        |detail| format!("{}: {detail}", error.kind()),
    );
    refused(format!("the chat template fails{line}: {what}"))
}

/// The engine's value for a JSON value; objects keep their order.
fn value_of(json: &Value) -> JinjaValue {
    match json {
        Value::Null => JinjaValue::from(()),
        Value::Bool(b) => JinjaValue::from(*b),
        Value::String(text) => JinjaValue::from(text.as_str()),
        Value::Array(list) => list.iter().map(value_of).collect(),
        Value::Object(fields) => JinjaValue::from_pairs(
            fields
                .iter()
                .map(|(name, value)| (name.as_str(), value_of(value))),
        ),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => JinjaValue::from(integer),
            (None, Some(integer)) => JinjaValue::from(integer),
            (None, None) => JinjaValue::from(number.as_f64().unwrap_or(f64::NAN)),
        },
    }
}

/// Prints a value as Python's `str` does. The engine does so too, but for the exponents of floats.
fn print(
    out: &mut Output,
    _: &mut State,
    value: &JinjaValue,
) -> std::result::Result<(), JinjaError> {
    match float_of(value) {
        Some(number) => out.write_str(&json::float(number))?,
        None if holds_float(value)? => write_repr(out, value)?,
        None => write!(out, "{value}")?,
    }
    Ok(())
}

fn float_of(value: &JinjaValue) -> Option<f64> {
    f64::try_from(value.clone())
        .ok()
        .filter(|_| value.is_number() && !value.is_integer())
}

/// Whether a list or an object that is printed whole has a float somewhere.
fn holds_float(value: &JinjaValue) -> std::result::Result<bool, JinjaError> {
    if !matches!(value.kind(), ValueKind::Seq | ValueKind::Map) {
        return Ok(float_of(value).is_some());
    }
    for item in value.try_iter()? {
        let inner = if value.kind() == ValueKind::Map {
            value.get_item(&item)?
        } else {
            item
        };
        if holds_float(&inner)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Prints a value as Python's `repr` does.
fn write_repr(out: &mut Output, value: &JinjaValue) -> std::result::Result<(), JinjaError> {
    let (open, close) = match value.kind() {
        ValueKind::Map => ("{", "}"),
        ValueKind::Seq if value.downcast_object_ref::<Tuple>().is_some() => ("(", ")"),
        ValueKind::Seq => ("[", "]"),
        _ => {
            match float_of(value) {
                Some(number) => out.write_str(&json::float(number))?,
                None => write!(out, "{value:?}")?,
            }
            return Ok(());
        }
    };
    out.write_str(open)?;
    for (i, item) in value.try_iter()?.enumerate() {
        if i > 0 {
            out.write_str(", ")?;
        }
        write_repr(out, &item)?;
        if value.kind() == ValueKind::Map {
            out.write_str(": ")?;
            write_repr(out, &value.get_item(&item)?)?;
        }
    }
    if open == "(" && value.len() == Some(1) {
        out.write_str(",")?;
    }
    out.write_str(close)?;
    Ok(())
}

/// Jinja's `int`: 0 for what is not a number.
fn int(
    state: &State,
    value: &JinjaValue,
    default: Option<JinjaValue>,
    base: Option<u32>,
    options: Kwargs,
) -> std::result::Result<JinjaValue, JinjaError> {
    let default = default.or_else(|| (!options.has("default")).then(|| JinjaValue::from(0)));
    filters::int(state, value, default, base, options)
}

/// Jinja's `float`: 0.0 for what is not a number.
fn float(
    state: &State,
    value: &JinjaValue,
    default: Option<JinjaValue>,
    options: Kwargs,
) -> std::result::Result<JinjaValue, JinjaError> {
    let default = default.or_else(|| (!options.has("default")).then(|| JinjaValue::from(0.0)));
    filters::float(state, value, default, options)
}

fn to_json(value: &JinjaValue, options: Kwargs) -> std::result::Result<JinjaValue, JinjaError> {
    let format = json::Format::from_kwargs(&options)?;
    options.assert_all_used()?;
    format.write(value).map(JinjaValue::from_safe_string)
}
