//! The messages of a conversation, prepared for a template, and the continuation of the last one.

use serde_json::{Map, Value};

use super::{TemplateOptions, refused};
use crate::error::{Error, ErrorKind, Result};

/// The names under which a message's reasoning is passed. Templates read the first, older ones the others.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// Marks the place where the last message ends. Its final space shows whether the template trims.
const MARK: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// Messages in the form that templates expect.
pub(super) struct Conversation {
    messages: Value,
    /// The text that is to be continued, if one is.
    continued: Option<String>,
}

impl Conversation {
    /// Checks and prepares `messages`.
    ///
    /// # Errors
    /// `messages` is not a list of objects or is empty, or the last one cannot be continued.
    pub fn new(messages: &Value, options: &TemplateOptions, template: &str) -> Result<Self> {
        let list = messages
            .as_array()
            .ok_or_else(|| input("messages must be an array of objects"))?;
        if list.is_empty() {
            return Err(input(
                "the conversation is empty, expected at least one message",
            ));
        }
        for (name, value) in [("tools", &options.tools), ("documents", &options.documents)] {
            let objects = |v: &Value| {
                v.as_array()
                    .is_some_and(|list| list.iter().all(Value::is_object))
            };
            if value.as_ref().is_some_and(|v| !v.is_null() && !objects(v)) {
                return Err(Error::option(name, "expected an array of objects"));
            }
        }
        let mut messages = list
            .iter()
            .enumerate()
            .map(|(i, message)| match message {
                Value::Object(fields) => Ok(with_reasoning(fields)),
                other => Err(input(format!(
                    "message {i} must be an object, found {other}"
                ))),
            })
            .collect::<Result<Vec<_>>>()?;
        let continued = match &options.continue_final_message {
            None => None,
            Some(_) if options.add_generation_prompt => {
                return Err(Error::option(
                    "continue_final_message",
                    "is not compatible with add_generation_prompt: the one continues the last message, \
                     the other begins a new one",
                ));
            }
            Some(field) => messages
                .last_mut()
                .map(|last| mark(last, field, template))
                .transpose()?,
        };
        Ok(Self {
            messages: messages.into_iter().map(Value::Object).collect(),
            continued,
        })
    }

    /// The prepared messages.
    pub fn messages(&self) -> &Value {
        &self.messages
    }

    /// Cuts a rendered prompt where the last message is to be continued.
    ///
    /// # Errors
    /// The template did not print the last message.
    pub fn cut(&self, mut rendered: String) -> Result<String> {
        let Some(text) = &self.continued else {
            return Ok(rendered);
        };
        let at = rendered
            .rfind(MARK.trim_end())
            .filter(|_| rendered.contains(text.trim()));
        let Some(at) = at else {
            return Err(refused(
                "the last message cannot be continued: it does not appear in the rendered prompt",
            ));
        };
        let trimmed = !rendered[at..].starts_with(MARK);
        rendered.truncate(at);
        if trimmed {
            rendered.truncate(rendered.trim_end().len());
        }
        Ok(rendered)
    }
}

fn input(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

/// A message without its null fields, and with its reasoning under every name that templates read.
fn with_reasoning(message: &Map<String, Value>) -> Map<String, Value> {
    let mut fields: Map<_, _> = message
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if let Some(reasoning) = REASONING.iter().find_map(|name| fields.get(*name)).cloned() {
        let rest = std::mem::take(&mut fields);
        fields.insert("thinking".into(), reasoning.clone());
        fields.extend(rest);
        fields.insert("reasoning_content".into(), reasoning);
    }
    fields
}

/// Puts the mark behind the text to be continued, and gives that text.
fn mark(message: &mut Map<String, Value>, field: &str, template: &str) -> Result<String> {
    let wrong = |what: &str| Error::option("continue_final_message", what);
    let value = message
        .get(field)
        .cloned()
        .ok_or_else(|| wrong(&format!("the last message has no {field:?} to continue")))?;
    // Reasoning is there under several names, and the template may read any of them.
    let fields: Vec<&str> = if REASONING.contains(&field) {
        REASONING
            .into_iter()
            .filter(|name| message.get(*name) == Some(&value))
            .collect()
    } else {
        vec![field]
    };
    if !fields.iter().any(|name| template.contains(name)) {
        return Err(wrong(&format!("the chat template does not read {field:?}")));
    }
    if let Some(Value::Array(parts)) = message.get_mut(field) {
        return match parts.iter_mut().rev().find_map(|part| part.get_mut("text")) {
            Some(Value::String(text)) => {
                let before = text.clone();
                text.push_str(MARK);
                Ok(before)
            }
            _ => Err(wrong("the last message has no text to continue")),
        };
    }
    let Value::String(text) = value else {
        return Err(wrong(&format!(
            "{field:?} of the last message is not a text"
        )));
    };
    for name in fields {
        message.insert(name.to_owned(), format!("{text}{MARK}").into());
    }
    Ok(text)
}
