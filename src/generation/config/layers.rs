//! The layers while they are being merged: the first that gives a value wins.

use super::{
    super::{
        fields::{self, Checked, Status},
        value::Value,
    },
    FieldValue, ModelFacts, SAMPLING_FIELDS, Setting, Source, Warning, honoured,
};
use crate::error::{Error, Result};

/// The layers.
pub(super) struct Layers<'a> {
    call: &'a Value,
    file: &'a Value,
    model: &'a ModelFacts,
    /// Whether tokens are drawn.
    pub sampling: bool,
    warnings: Vec<Warning>,
}

impl<'a> Layers<'a> {
    /// Fails at the first key of the call that cannot be used; the file's become warnings.
    pub fn new(call: &'a Value, file: &'a Value, model: &'a ModelFacts) -> Result<Self> {
        let mut layers = Self {
            call,
            file,
            model,
            sampling: true,
            warnings: Vec::new(),
        };
        for (name, value) in entries(call, "the configuration")? {
            match fields::find(name).map(|field| (field, field.status)) {
                None => return Err(Error::option(name, unknown(name))),
                Some((_, Status::Metadata)) => {}
                // Files that are passed as a call name refused fields with their defaults.
                Some((field, Status::Refused(_))) if field.is_neutral(value) => {}
                Some((field, _)) if *value != Value::Null => drop(field.check(value)?),
                Some(_) => {}
            }
        }
        for (name, value) in of_file(file)? {
            match fields::find(name).map(|field| (field, field.status)) {
                None if *value == Value::Null => {}
                None => layers.warn(
                    name,
                    format!("the file's {value} is ignored: {}", unknown(name)),
                ),
                Some((field, Status::Refused(reason))) if !field.is_neutral(value) => {
                    layers.warn(name, format!("the file's {value} has no effect: {reason}"));
                }
                Some(_) => {}
            }
        }
        Ok(layers)
    }

    fn warn(&mut self, field: &str, message: String) {
        self.warnings.push(Warning {
            field: field.into(),
            message,
        });
    }

    /// The first layer's value, if any gives one.
    fn find(&mut self, name: &'static str) -> Result<Option<(Checked, Source)>> {
        let field = honoured(name);
        if let Some(value) = given(self.call, name) {
            return Ok(Some((field.check(value)?, Source::Call)));
        }
        if let Some(value) = given(self.file, name) {
            match field.check(value) {
                Ok(checked) => return Ok(Some((checked, Source::GenerationConfig))),
                Err(error) if self.used(name) => return Err(in_file(name, &error)),
                Err(error) => self.warn(name, format!("the file's value has no effect: {error}")),
            }
        }
        let model = match name {
            "bos_token_id" => self.model.bos_token_id.map(|id| vec![id]),
            "pad_token_id" => self.model.pad_token_id.map(|id| vec![id]),
            "eos_token_id" => Some(&self.model.eos_token_ids)
                .filter(|ids| !ids.is_empty())
                .cloned(),
            _ => None,
        };
        Ok(model.map(|ids| (Checked::Tokens(ids), Source::ModelConfig)))
    }

    /// Whether a value of the file's `name` would have an effect.
    fn used(&self, name: &str) -> bool {
        match name {
            "bos_token_id" | "pad_token_id" => false,
            _ => self.sampling || !SAMPLING_FIELDS.contains(&name),
        }
    }

    /// The merged value of the honoured field `name`.
    pub fn take<T: FieldValue>(&mut self, name: &'static str) -> Result<Setting<T>> {
        let (checked, source) = match self.find(name)? {
            Some((checked, source)) => (Some(checked), source),
            None => (default(name)?, Source::Library),
        };
        let value = checked.map_or_else(T::absent, T::from_checked);
        let mismatch = || {
            Error::internal(format!(
                "the table gives {name} another kind than the config"
            ))
        };
        let value = value.ok_or_else(mismatch)?;
        Ok(Setting { value, source })
    }

    /// What was noticed on the way.
    pub fn into_warnings(self) -> Vec<Warning> {
        self.warnings
    }
}

/// The library's default of `name`; `None` where it is null.
fn default(name: &str) -> Result<Option<Checked>> {
    let field = honoured(name);
    let value = field.default_value();
    (value != Value::Null)
        .then(|| field.check(&value))
        .transpose()
}

/// `error` about the file's value of `name`, saying so and how to go on.
pub(super) fn in_file(name: &str, error: &Error) -> Error {
    let message = format!("generation_config.json: {error}; pass {name} to override the file");
    Error::new(error.kind().clone(), message)
}

/// What the file holds.
pub(super) fn of_file(file: &Value) -> Result<&[(String, Value)]> {
    entries(file, "generation_config.json")
}

fn given<'a>(layer: &'a Value, name: &str) -> Option<&'a Value> {
    layer.get(name).filter(|value| **value != Value::Null)
}

fn entries<'a>(layer: &'a Value, what: &str) -> Result<&'a [(String, Value)]> {
    match layer {
        Value::Null => Ok(&[]),
        Value::Object(entries) => Ok(entries),
        other => Err(Error::option(
            "config",
            format!("{what} is {other}, allowed: an object"),
        )),
    }
}

fn unknown(name: &str) -> String {
    match fields::nearest(name) {
        Some(nearest) => format!("there is no option of this name; did you mean {nearest}?"),
        None => "there is no option of this name".into(),
    }
}
