//! Text ⇄ ids: vocabularies of GGUF files and `tokenizer.json`, chat templates, incremental decoding.
//!
//! A [`Tokenizer`] comes from a GGUF [`Vocabulary`] or from `tokenizer.json` and
//! `tokenizer_config.json`. Encoding runs through the `tokenizers` crate, so ids are Hugging Face's;
//! decoding is a pipeline of our own ([`Decoder`]) that computes the same text in a stream; chat
//! templates run through minijinja, configured as transformers configures Jinja.
//!
//! This module knows no models and no devices.

mod bytes;
mod decoder;
mod encoder;
mod json;
mod pre_tokenizers;
mod sentencepiece;
mod specials;
mod steps;
mod template;
mod vocabulary;

use std::{collections::HashSet, sync::Arc};

use serde_json::Value;

pub use self::{
    decoder::Decoder,
    template::{Moment, TemplateOptions},
    vocabulary::{TokenKind, Vocabulary},
};
use self::{
    encoder::Encoder,
    specials::{Around, SpecialTokens},
    steps::Steps,
    template::Templates,
};
use crate::error::{Error, ErrorKind, Result};

/// A vocabulary with everything needed to go from text to ids and back. Clones share their data.
#[derive(Clone)]
pub struct Tokenizer {
    parts: Arc<TokenizerParts>,
}

#[derive(Clone)]
struct TokenizerParts {
    encoder: Encoder,
    around: Around,
    steps: Steps,
    special: SpecialTokens,
    templates: Templates,
    /// Ids that have a name but stand for no text.
    silent: HashSet<u32>,
}

impl Tokenizer {
    /// A tokenizer from the vocabulary of a GGUF file.
    ///
    /// # Errors
    /// The vocabulary contradicts itself, or its model or pre-tokeniser is not supported.
    pub fn from_vocabulary(vocabulary: Vocabulary) -> Result<Self> {
        vocabulary::build(vocabulary).map(Self::new)
    }

    /// A tokenizer from the text of `tokenizer.json` and, where there is one, `tokenizer_config.json`.
    ///
    /// # Errors
    /// A file is not valid JSON, contradicts itself, or names a type that is not supported.
    pub fn from_json(tokenizer_json: &[u8], tokenizer_config: Option<&[u8]>) -> Result<Self> {
        json::build(tokenizer_json, tokenizer_config).map(Self::new)
    }

    fn new(parts: TokenizerParts) -> Self {
        Self {
            parts: Arc::new(parts),
        }
    }

    /// This tokenizer with another default chat template, such as that of `chat_template.jinja`.
    #[must_use]
    pub fn with_chat_template(self, template: String) -> Self {
        let mut parts = Arc::unwrap_or_clone(self.parts);
        parts.templates.set_default(template);
        Self::new(parts)
    }

    /// The ids of `text`. Special tokens written in the text are recognised; with
    /// `add_special_tokens`, those that the model expects around a raw prompt are added (a prompt from
    /// a chat template already has them).
    ///
    /// # Errors
    /// The text holds something that the vocabulary cannot express and has no token for.
    pub fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>> {
        let ids = self.parts.encoder.encode(text)?;
        Ok(if add_special_tokens {
            self.parts.around.apply(ids)
        } else {
            ids
        })
    }

    /// The text of `ids`; ids beyond the vocabulary stand for nothing.
    ///
    /// # Errors
    /// A pattern of the tokenizer's own decoder cannot be applied.
    pub fn decode(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String> {
        let mut decoder = Decoder::new(self, skip_special_tokens);
        let mut text = String::new();
        for &id in ids {
            text.push_str(&decoder.push(id)?);
        }
        text.push_str(&decoder.finish()?);
        Ok(text)
    }

    /// The number of ids: all ids are below it. A model's output layer may have more rows.
    pub fn len(&self) -> usize {
        self.parts.encoder.len()
    }

    /// Never true: a tokenizer has at least one token.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id of a token, written as in the vocabulary.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.parts.encoder.id(token)
    }

    /// The token with an id, written as in the vocabulary.
    pub fn token(&self, id: u32) -> Option<String> {
        self.parts.encoder.token(id)
    }

    /// Whether an id is a special token, which `skip_special_tokens` leaves out.
    pub fn is_special(&self, id: u32) -> bool {
        self.token(id)
            .is_some_and(|token| self.parts.encoder.is_special(&token))
    }

    /// The ids that end a text, as far as the tokenizer's files say.
    pub fn eos_token_ids(&self) -> &[u32] {
        &self.parts.special.eos
    }

    /// The id that begins a text, if there is one.
    pub fn bos_token_id(&self) -> Option<u32> {
        self.parts.special.bos
    }

    /// The id that fills up short rows of a batch, if there is one.
    pub fn pad_token_id(&self) -> Option<u32> {
        self.parts.special.pad
    }

    /// The default chat template, if the files have one.
    pub fn chat_template(&self) -> Option<&str> {
        self.parts.templates.default_source()
    }

    /// The prompt that a chat template makes of `messages`, an array of objects. Encode it without
    /// added special tokens.
    ///
    /// # Errors
    /// There is no template, it refuses the messages (the message is its own), or it cannot be rendered.
    pub fn apply_chat_template(
        &self,
        messages: &Value,
        options: &TemplateOptions,
    ) -> Result<String> {
        self.parts
            .templates
            .render(messages, options, &self.parts.special.names)
    }
}

impl TokenizerParts {
    /// What an id stands for before decoding; nothing if it is skipped or unknown.
    fn text_of(&self, id: u32, skip_special_tokens: bool) -> Option<String> {
        if self.silent.contains(&id) {
            return None;
        }
        let token = self.encoder.token(id)?;
        (!skip_special_tokens || !self.encoder.is_special(&token)).then_some(token)
    }
}

/// The vocabulary cannot be used.
fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidTokenizer, message)
}
