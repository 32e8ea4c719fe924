//! Prompts: from what a caller writes to token ids that can be evaluated.
//!
//! A prompt is text, a conversation, or token ids; a call takes one or a list of them. Text gets the
//! special tokens that the tokenizer adds around a raw prompt. A conversation is rendered with the
//! model's chat template, which writes all special tokens itself, and then encoded without any more.
//! An empty prompt is refused, unless the call names the `bos_token_id` it is to begin with.

use super::{config::Source, plan::Plan, stopping::Criterion, value::Value};
use crate::{
    error::{Error, ErrorKind, Result},
    tokenizer::{TemplateOptions, Tokenizer},
};

/// What is to be continued.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    /// Text as it is.
    Text(String),
    /// Chat messages, an array of objects. Where the last is the assistant's, the answer continues it;
    /// otherwise the answer is a new message of the assistant.
    Chat(serde_json::Value),
    /// Token ids as they are.
    Ids(Vec<u32>),
}

impl Prompt {
    /// The prompts of a call: one, or a list of them.
    ///
    /// A text is one prompt, a list of numbers or of messages too; a list of texts or of lists holds
    /// many.
    pub fn parse_many(input: &Value) -> Result<Vec<Self>> {
        match input {
            Value::List(items)
                if matches!(items.first(), Some(Value::Text(_) | Value::List(_))) =>
            {
                let prompts = items.iter().enumerate().map(|(i, item)| {
                    Self::parse(item).map_err(|error| in_prompt(i, items.len(), &error))
                });
                prompts.collect()
            }
            one => Ok(vec![Self::parse(one)?]),
        }
    }

    /// One prompt.
    pub fn parse(input: &Value) -> Result<Self> {
        match input {
            Value::Text(text) => Ok(Self::Text(text.clone())),
            Value::List(items) if matches!(items.first(), Some(Value::Object(_))) => {
                match items
                    .iter()
                    .position(|item| !matches!(item, Value::Object(_)))
                {
                    None => Ok(Self::Chat(input.to_json())),
                    Some(at) => Err(invalid(format!(
                        "message {at} of the conversation is {}, allowed: an object",
                        items[at]
                    ))),
                }
            }
            Value::List(items) => {
                let ids = items.iter().enumerate().map(|(at, item)| match item {
                    Value::Number(id)
                        if id.fract() == 0.0 && (0.0..4_294_967_296.0).contains(id) =>
                    {
                        Ok(*id as u32)
                    }
                    other => Err(invalid(format!(
                        "token id {at} of the prompt is {other}, allowed: an integer from 0 up"
                    ))),
                });
                ids.collect::<Result<_>>().map(Self::Ids)
            }
            other => Err(invalid(format!(
                "the prompt is {other}, allowed: a text, a list of messages, a list of token ids, or a list of prompts"
            ))),
        }
    }

    /// The ids of this prompt, at least one, all below `vocabulary`. An empty prompt begins with `start`
    /// where there is one.
    pub(super) fn encode(
        &self,
        tokenizer: &Tokenizer,
        vocabulary: usize,
        start: Option<u32>,
    ) -> Result<Vec<u32>> {
        let ids = match self {
            Self::Text(text) => tokenizer.encode(text, true)?,
            Self::Chat(messages) => tokenizer.encode(&render(messages, tokenizer)?, false)?,
            Self::Ids(ids) => ids.clone(),
        };
        if ids.is_empty() {
            let start = start.map(|id| vec![id]);
            return start.ok_or_else(|| {
                invalid("the prompt is empty, allowed: at least one token; pass bos_token_id to begin with that token")
            });
        }
        check_ids(&ids, vocabulary)?;
        Ok(ids)
    }
}

/// Fails, naming index and value, if an id is not of the model's vocabulary.
pub(super) fn check_ids(ids: &[u32], vocabulary: usize) -> Result<()> {
    match ids.iter().position(|&id| id as usize >= vocabulary) {
        None => Ok(()),
        Some(at) => Err(invalid(format!(
            "token id {at} of the prompt is {}, allowed: ids below {vocabulary}, the size of the vocabulary",
            ids[at]
        ))),
    }
}

/// `ids` without those that do not count by `mask`, which all stand before those that do.
pub(super) fn without_padding<'a>(ids: &'a [u32], mask: &[bool]) -> Result<&'a [u32]> {
    if mask.len() != ids.len() {
        let (found, wanted) = (mask.len(), ids.len());
        return Err(Error::option(
            "attention_mask",
            format!("found {found} values for {wanted} ids, allowed: one for each id"),
        ));
    }
    let padding = mask.iter().take_while(|counts| !**counts).count();
    match mask[padding..].iter().position(|counts| !counts) {
        None => Ok(&ids[padding..]),
        Some(at) => {
            let at = padding + at;
            Err(Error::option(
                "attention_mask",
                format!("found 0 at {at} after a 1, allowed: padding on the left only"),
            ))
        }
    }
}

/// Fails if nothing can follow a prompt of `length` tokens.
pub(super) fn check_length(length: usize, plan: &Plan) -> Result<()> {
    for rule in &plan.stopping {
        match rule.criterion {
            Criterion::Context(limit) if length >= limit => {
                return Err(Error::new(
                    ErrorKind::ContextFull { limit },
                    format!(
                        "the prompt has {length} tokens and the context {limit}: shorten the prompt, or load the model with a longer context"
                    ),
                ));
            }
            Criterion::MaxLength(limit) if length >= limit => {
                return Err(Error::option(
                    "max_length",
                    format!(
                        "found {limit} ({}), allowed: more than the {length} tokens of the prompt; set max_new_tokens to limit the answer alone",
                        rule.source.name()
                    ),
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// `error` of one prompt of several, saying of which.
pub(super) fn in_prompt(index: usize, prompts: usize, error: &Error) -> Error {
    match prompts {
        1 => error.clone(),
        _ => Error::new(error.kind().clone(), format!("prompt {index}: {error}")),
    }
}

/// The token that an empty prompt begins with: only one that the call itself names, since an empty
/// prompt is more often a mistake than a wish.
pub(super) fn start_token(plan: &Plan) -> Option<u32> {
    let setting = plan.setting("bos_token_id")?;
    match (&setting.value, setting.source) {
        (Value::Number(id), Source::Call) => Some(*id as u32),
        _ => None,
    }
}

fn render(messages: &serde_json::Value, tokenizer: &Tokenizer) -> Result<String> {
    let last = messages.as_array().and_then(|messages| messages.last());
    let open = last.is_some_and(|message| message["role"] == "assistant");
    let options = TemplateOptions {
        add_generation_prompt: !open,
        continue_final_message: open.then(|| "content".into()),
        ..Default::default()
    };
    tokenizer.apply_chat_template(messages, &options)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}
