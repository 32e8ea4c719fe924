//! `config.json` as metadata: nested objects become dotted keys, such as `rope_parameters.rope_theta`.

use serde_json::Value as Json;

use super::{Metadata, Value};
use crate::error::{Error, Result};

/// How deep objects may be nested; a file of transformers needs two levels.
const MAX_DEPTH: usize = 8;

impl Metadata {
    /// The keys and values of a JSON object.
    ///
    /// # Errors
    /// The text is not a JSON object, or is nested too deeply; `file` names it.
    pub fn from_json(file: &str, text: &[u8]) -> Result<Self> {
        let json: Json = serde_json::from_slice(text).map_err(|e| Error::weights(file, e))?;
        if !json.is_object() {
            return Err(Error::weights(file, "the file is not a JSON object"));
        }
        let mut metadata = Self::default();
        metadata.flatten(file, String::new(), &json, 0)?;
        Ok(metadata)
    }

    fn flatten(&mut self, file: &str, key: String, json: &Json, depth: usize) -> Result<()> {
        let value = match json {
            Json::Null => Value::Null,
            Json::Object(_) if depth == MAX_DEPTH => {
                let message = format!("{key} is nested more than {MAX_DEPTH} levels deep");
                return Err(Error::weights(file, message));
            }
            Json::Object(entries) => {
                for (name, json) in entries {
                    let key = if key.is_empty() {
                        name.clone()
                    } else {
                        format!("{key}.{name}")
                    };
                    self.flatten(file, key, json, depth + 1)?;
                }
                return Ok(());
            }
            Json::Bool(value) => Value::Bool(*value),
            Json::String(text) => Value::String(text.clone()),
            Json::Number(number) => scalar(number),
            Json::Array(items) => list(items),
        };
        self.0.insert(key, value);
        Ok(())
    }
}

fn scalar(number: &serde_json::Number) -> Value {
    match (number.as_u64(), number.as_i64()) {
        (Some(n), _) => Value::Unsigned(n),
        (None, Some(n)) => Value::Signed(n),
        // Every JSON number is a double here.
        (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
    }
}

/// A list of one type; of several, the texts of its items, which no getter of numbers takes.
fn list(items: &[Json]) -> Value {
    fn all<'a, T>(items: &'a [Json], read: impl Fn(&'a Json) -> Option<T>) -> Option<Vec<T>> {
        items.iter().map(read).collect()
    }
    all(items, Json::as_i64)
        .map(Value::Integers)
        .or_else(|| all(items, Json::as_f64).map(Value::Floats))
        .or_else(|| all(items, Json::as_bool).map(Value::Bools))
        .or_else(|| all(items, |item| item.as_str().map(str::to_owned)).map(Value::Strings))
        .unwrap_or_else(|| Value::Strings(items.iter().map(Json::to_string).collect()))
}
