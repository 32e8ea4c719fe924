//! A model's constants by one name each, whichever file they stand in.
//!
//! Families ask for the names of GGUF, without the architecture's prefix. In a checkpoint's
//! `config.json` the same constant has another name, by the table in [`names`]; a name that is not in it
//! is spelled alike in both. What a file says and nothing asked for is looked through by
//! [`Keys::check_all_read`], so that a constant that this code does not know is never ignored.

mod names;
mod unread;

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
};

use self::names::spellings;
use super::Family;
use crate::{
    error::{Error, Result},
    weights::{Format, Metadata, Value},
};

/// What Hugging Face takes where `config.json` lacks a key: the defaults of the family's configuration
/// class that differ from other families'. A null is not the lack of a key.
pub type Defaults = &'static [(&'static str, Assumed)];

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Assumed {
    /// A number, or a number of things.
    Number(f64),
    /// A truth value.
    Flag(bool),
    /// Text.
    Text(&'static str),
}

/// The constants of one model.
pub struct Keys<'a> {
    metadata: &'a Metadata,
    format: Format,
    /// The model's family as its file calls it, in a GGUF file the prefix of keys.
    architecture: &'a str,
    family: &'static Family,
    /// The tensors of a GGUF file, which say what its keys do not.
    tensors: Option<&'a HashMap<String, usize>>,
    /// Keys that were asked for.
    read: RefCell<BTreeSet<String>>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(
        metadata: &'a Metadata,
        format: Format,
        architecture: &'a str,
        family: &'static Family,
        tensors: Option<&'a HashMap<String, usize>>,
    ) -> Self {
        Self {
            metadata,
            format,
            architecture,
            family,
            tensors: tensors.filter(|_| format == Format::Gguf),
            read: RefCell::default(),
        }
    }

    /// The family that reads them.
    pub fn family(&self) -> &'static Family {
        self.family
    }

    /// Whether the model is a GGUF file that holds the tensor called `name`.
    pub fn has_tensor(&self, name: &str) -> bool {
        self.tensors
            .is_some_and(|tensors| tensors.contains_key(name))
    }

    /// Whose conventions the model follows.
    pub fn format(&self) -> Format {
        self.format
    }

    /// All metadata, for what is not a constant of the architecture.
    pub fn metadata(&self) -> &'a Metadata {
        self.metadata
    }

    /// The key that `name` stands for in this model's file, for messages.
    pub fn key(&self, name: &str) -> String {
        match self.format {
            Format::Gguf => format!("{}.{name}", self.architecture),
            Format::Checkpoint => {
                let spellings = spellings(&name);
                let found = spellings
                    .iter()
                    .find(|key| self.metadata.get(key).is_some());
                (*found.unwrap_or(&spellings[0])).to_owned()
            }
        }
    }

    /// A number of things.
    pub fn count(&self, name: &str) -> Result<Option<usize>> {
        match self.metadata.u32(&self.find(name)?)? {
            Some(value) => Ok(Some(value as usize)),
            None => Ok(self.default_number(name).map(|value| value as usize)),
        }
    }

    /// Every how many things something happens, `usual` if the file does not say.
    pub fn step(&self, name: &str, usual: usize) -> Result<usize> {
        match self.count(name)?.unwrap_or(usual) {
            0 => Err(Error::weights(self.key(name), "0 is not allowed")),
            step => Ok(step),
        }
    }

    /// A number of things that must be given.
    pub fn required_count(&self, name: &str) -> Result<usize> {
        self.count(name)?.ok_or_else(|| self.missing(name))
    }

    /// A number.
    pub fn number(&self, name: &str) -> Result<Option<f32>> {
        let default = || self.default_number(name).map(|value| value as f32);
        Ok(self.metadata.f32(&self.find(name)?)?.or_else(default))
    }

    /// A number that must be given.
    pub fn required_number(&self, name: &str) -> Result<f32> {
        self.number(name)?.ok_or_else(|| self.missing(name))
    }

    /// A number that something is divided by, so above 0, and its reciprocal finite.
    pub fn divisor(&self, name: &str) -> Result<Option<f32>> {
        let divisor = self.number(name)?;
        match divisor.filter(|x| !(*x > 0.0 && x.recip().is_finite())) {
            None => Ok(divisor),
            Some(x) => {
                let message = format!("nothing can be divided by {x}");
                Err(Error::weights(self.key(name), message))
            }
        }
    }

    /// A list of numbers.
    pub fn numbers(&self, name: &str) -> Result<Option<Vec<f32>>> {
        self.metadata.f32s(&self.find(name)?)
    }

    /// A list of integers.
    pub fn integers(&self, name: &str) -> Result<Option<&'a [i64]>> {
        self.metadata.integers(&self.find(name)?)
    }

    /// A truth value.
    pub fn flag(&self, name: &str) -> Result<Option<bool>> {
        let default = || match self.default(name) {
            Some(Assumed::Flag(value)) => Some(value),
            _ => None,
        };
        Ok(self.metadata.bool(&self.find(name)?)?.or_else(default))
    }

    /// Text.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>> {
        let default = || match self.default(name) {
            Some(Assumed::Text(value)) => Some(value),
            _ => None,
        };
        Ok(self.metadata.str(&self.find(name)?)?.or_else(default))
    }

    /// A list of texts.
    pub fn texts(&self, name: &str) -> Result<Option<&'a [String]>> {
        self.metadata.strings(&self.find(name)?)
    }

    /// The error of a constant whose value, `found`, this code has no support for.
    pub fn unsupported(&self, name: &str, found: &str, supported: &str) -> Error {
        let key = self.key(name);
        Error::unsupported(format!(
            "{key} {found} is not supported; supported is {supported}"
        ))
    }

    /// Fails if the file holds a constant that nothing asked for and that would change the answer.
    pub(super) fn check_all_read(&self) -> Result<()> {
        let read = self.read.borrow();
        let mut unread = self
            .metadata
            .0
            .iter()
            .filter(|(key, _)| !read.contains(*key));
        let (format, architecture) = (self.format, self.architecture);
        unread.try_for_each(|(key, value)| {
            unread::check(format, architecture, self.family.name, key, value)
        })
    }

    /// The error of a constant that must be given.
    pub fn missing(&self, name: &str) -> Error {
        Error::weights(self.key(name), "the key is missing")
    }

    /// What Hugging Face takes for `name` where `config.json` lacks it in every spelling.
    fn default(&self, name: &str) -> Option<Assumed> {
        let there = |key: &&str| self.metadata.0.contains_key(*key);
        if self.format == Format::Gguf || spellings(&name).iter().any(there) {
            return None;
        }
        let defaults = self.family.defaults.iter();
        let mut defaults = defaults.filter(|(known, _)| *known == name);
        defaults.next().map(|(_, default)| *default)
    }

    fn default_number(&self, name: &str) -> Option<f64> {
        match self.default(name) {
            Some(Assumed::Number(value)) => Some(value),
            _ => None,
        }
    }

    /// The key of `name`, noted as read. Fails if it is there in two spellings that differ.
    fn find(&self, name: &str) -> Result<String> {
        let key = self.key(name);
        if self.format == Format::Gguf {
            self.read.borrow_mut().insert(key.clone());
            return Ok(key);
        }
        for other in spellings(&name) {
            let Some(value) = self.metadata.get(other) else {
                continue;
            };
            self.read.borrow_mut().insert((*other).to_owned());
            if !same(value, &self.metadata.0[&key]) {
                let message = format!(
                    "{} contradicts {other}, which is {}",
                    self.metadata.0[&key].kind(),
                    value.kind()
                );
                return Err(Error::weights(key, message));
            }
        }
        Ok(key)
    }
}

/// Whether two values say the same, be they integers or floats.
fn same(a: &Value, b: &Value) -> bool {
    a == b || number(a).is_some_and(|x| Some(x) == number(b))
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Unsigned(n) => Some(*n as f64),
        Value::Signed(n) => Some(*n as f64),
        Value::Float(x) => Some(*x),
        _ => None,
    }
}
