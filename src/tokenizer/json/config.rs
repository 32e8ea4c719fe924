//! `tokenizer_config.json`: special tokens, added tokens, chat templates.

use ::tokenizers::AddedToken;
use serde::Deserialize;
use serde_json::Value;

use super::{
    super::{
        encoder::Encoder,
        invalid,
        specials::{Around, SpecialTokens},
        template::Templates,
    },
    Added,
};
use crate::error::Result;

/// The special tokens that have names.
const NAMES: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

/// The file, with its special tokens read.
#[derive(Default)]
pub(super) struct Config {
    file: Value,
    named: Vec<(&'static str, AddedToken)>,
    added: Vec<AddedToken>,
}

impl Config {
    /// Reads the file.
    ///
    /// # Errors
    /// It is not a JSON object, or a special token has a wrong form.
    pub fn new(text: &[u8]) -> Result<Self> {
        let file: Value = serde_json::from_slice(text)
            .map_err(|e| invalid(format!("tokenizer_config.json: {e}")))?;
        if !file.is_object() {
            return Err(invalid("tokenizer_config.json is not an object"));
        }
        let mut added = Vec::new();
        if let Some(tokens) = file["added_tokens_decoder"].as_object() {
            let mut tokens: Vec<_> = tokens
                .iter()
                .map(|(id, token)| {
                    Ok((
                        id.parse::<u32>().unwrap_or(u32::MAX),
                        token_of("added_tokens_decoder", token)?,
                    ))
                })
                .collect::<Result<_>>()?;
            tokens.sort_by_key(|(id, _)| *id);
            added.extend(tokens.into_iter().map(|(_, token)| token));
        }
        let mut named = Vec::new();
        for name in NAMES {
            if !file[name].is_null() {
                let token = token_of(name, &file[name])?;
                // A name alone takes the flags that the token was added with.
                let token = added
                    .iter()
                    .find(|a| a.content == token.content)
                    .cloned()
                    .unwrap_or(token);
                named.push((name, token.special(true)));
            }
        }
        for list in ["additional_special_tokens", "extra_special_tokens"] {
            let tokens: Vec<&Value> = match &file[list] {
                Value::Array(tokens) => tokens.iter().collect(),
                Value::Object(tokens) => tokens.values().collect(),
                _ => Vec::new(),
            };
            for token in tokens {
                added.push(token_of(list, token)?.special(true));
            }
        }
        Ok(Self { file, named, added })
    }

    /// The tokens that this file adds to those of `tokenizer.json`, or whose flags it changes.
    pub fn added_tokens(&self) -> impl Iterator<Item = AddedToken> {
        self.added
            .iter()
            .chain(self.named.iter().map(|(_, token)| token))
            .cloned()
    }

    /// Whether special tokens written in a text are taken for text.
    pub fn split_special_tokens(&self) -> bool {
        self.file["split_special_tokens"] == true
    }

    /// The named special tokens with their ids.
    pub fn special_tokens(&self, encoder: &Encoder) -> SpecialTokens {
        let id = |name| {
            let (_, token) = self.named.iter().find(|(known, _)| *known == name)?;
            encoder.id(&token.content)
        };
        SpecialTokens {
            bos: id("bos_token"),
            eos: id("eos_token").into_iter().collect(),
            pad: id("pad_token"),
            names: self
                .named
                .iter()
                .map(|(name, token)| ((*name).to_owned(), token.content.clone()))
                .collect(),
        }
    }

    /// What stands around a raw prompt, if this file says so; it then overrules `tokenizer.json`.
    pub fn around(&self, special: &SpecialTokens) -> Option<Around> {
        let [bos, eos] = ["add_bos_token", "add_eos_token"].map(|name| self.file.get(name));
        if bos.is_none() && eos.is_none() {
            return None;
        }
        let yes = |flag: Option<&Value>| flag.is_some_and(|flag| flag == &Value::Bool(true));
        Some(Around::between(
            special.bos.filter(|_| yes(bos)),
            special.eos.first().copied().filter(|_| yes(eos)),
        ))
    }

    /// The chat templates.
    pub fn templates(&self) -> Result<Templates> {
        Templates::from_config(&self.file["chat_template"])
    }
}

/// A special token, written as its text or as an object with flags.
fn token_of(name: &str, value: &Value) -> Result<AddedToken> {
    match value {
        Value::String(text) => Ok(AddedToken::from(text.as_str(), true)),
        Value::Object(_) => Added::deserialize(value)
            .map(Into::into)
            .map_err(|e| invalid(format!("tokenizer_config.json: {name}: {e}"))),
        _ => Err(invalid(format!(
            "tokenizer_config.json: {name} is {value}, expected a token"
        ))),
    }
}
