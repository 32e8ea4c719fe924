//! Chat templates: messages → prompt, as `apply_chat_template` of Hugging Face transformers renders them.
//!
//! The reference is `transformers/utils/chat_template_utils.py` (5.24): Jinja with `trim_blocks`,
//! `lstrip_blocks` and loop controls; `raise_exception`, `strftime_now` and a `tojson` of its own; the
//! `generation` tag; messages whose null fields are dropped and whose reasoning is copied between the
//! names in use.

mod conversation;
mod environment;
mod json;
mod methods;
mod tags;
mod time;

use serde_json::{Map, Value};

use self::conversation::Conversation;
pub use self::time::Moment;
use super::invalid;
use crate::error::{Error, ErrorKind, Result};

/// What a chat template is rendered with, besides the messages.
#[derive(Debug, Clone, Default)]
pub struct TemplateOptions {
    /// The name of one of the file's templates, or a template; the file's default when absent.
    pub chat_template: Option<String>,
    /// The tools that the model may call, as JSON schemas.
    pub tools: Option<Value>,
    /// Documents for retrieval-augmented templates, an array of objects.
    pub documents: Option<Value>,
    /// Ends the prompt with the header of an answer.
    pub add_generation_prompt: bool,
    /// Ends the prompt inside this field of the last message (`content`, as a rule), so that the model
    /// continues it.
    pub continue_final_message: Option<String>,
    /// Further variables of the template; they hide special tokens of the same name.
    pub variables: Map<String, Value>,
    /// What `strftime_now` takes for the present; the system's clock, in UTC, when absent.
    pub now: Option<Moment>,
}

/// The chat templates of a tokenizer.
#[derive(Clone, Default)]
pub(super) struct Templates {
    default: Option<String>,
    named: Vec<(String, String)>,
}

impl Templates {
    /// The default template, and others by name.
    pub fn new(default: Option<String>, named: Vec<(String, String)>) -> Self {
        Self { default, named }
    }

    /// The templates as `tokenizer_config.json` holds them: a text, or a list of names and texts.
    ///
    /// # Errors
    /// The value is neither.
    pub fn from_config(value: &Value) -> Result<Self> {
        match value {
            Value::Null => Ok(Self::default()),
            Value::String(text) => Ok(Self::new(Some(text.clone()), Vec::new())),
            Value::Array(list) => list
                .iter()
                .map(|entry| match (&entry["name"], &entry["template"]) {
                    (Value::String(name), Value::String(text)) => Ok((name.clone(), text.clone())),
                    _ => Err(invalid(
                        "tokenizer_config.json: an entry of chat_template has no name or no template",
                    )),
                })
                .collect::<Result<_>>()
                .map(|named| Self::new(None, named)),
            _ => Err(invalid("tokenizer_config.json: chat_template is neither a text nor a list")),
        }
    }

    /// Replaces the default template.
    pub fn set_default(&mut self, text: String) {
        self.default = Some(text);
    }

    /// The template that is used when none is asked for.
    pub fn default_source(&self) -> Option<&str> {
        self.default.as_deref().or_else(|| self.named("default"))
    }

    fn named(&self, name: &str) -> Option<&str> {
        self.named
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, text)| text.as_str())
    }

    /// Renders `messages`.
    pub fn render(
        &self,
        messages: &Value,
        options: &TemplateOptions,
        special_tokens: &[(String, String)],
    ) -> Result<String> {
        let source = self.choose(options)?;
        let conversation = Conversation::new(messages, options, source)?;
        let context = context(&conversation, options, special_tokens);
        let rendered = environment::render(source, context, options.now)?;
        conversation.cut(rendered)
    }

    fn choose<'t>(&'t self, options: &'t TemplateOptions) -> Result<&'t str> {
        if let Some(asked) = &options.chat_template {
            return Ok(self.named(asked).unwrap_or(asked));
        }
        options
            .tools
            .as_ref()
            .and_then(|_| self.named("tool_use"))
            .or_else(|| self.default_source())
            .ok_or_else(|| {
                let message = if self.named.is_empty() {
                    "the model has no chat template; give one as chat_template".to_owned()
                } else {
                    let names: Vec<_> = self.named.iter().map(|(name, _)| name.as_str()).collect();
                    format!(
                        "the model has no default chat template; choose one of {}",
                        names.join(", ")
                    )
                };
                Error::new(ErrorKind::InvalidTemplate, message)
            })
    }
}

/// The names under which templates find special tokens; they are always there, possibly empty.
const SPECIAL_TOKENS: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

fn context(
    conversation: &Conversation,
    options: &TemplateOptions,
    special_tokens: &[(String, String)],
) -> Map<String, Value> {
    let mut context = Map::new();
    for name in SPECIAL_TOKENS {
        context.insert(name.into(), "".into());
    }
    for (name, text) in special_tokens {
        context.insert(name.clone(), text.as_str().into());
    }
    context.extend(options.variables.clone());
    context.insert("messages".into(), conversation.messages().clone());
    context.insert("tools".into(), options.tools.clone().unwrap_or_default());
    context.insert(
        "documents".into(),
        options.documents.clone().unwrap_or_default(),
    );
    context.insert(
        "add_generation_prompt".into(),
        options.add_generation_prompt.into(),
    );
    context
}

/// The template cannot be rendered, or refused.
fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidTemplate, message)
}
