//! `tokenizer.json` and `tokenizer_config.json`.
//!
//! The crate can read `tokenizer.json` itself, but panics on some damaged files and hides which part is at
//! fault, so the parts are read here, checked, and handed to the crate's constructors. What HF
//! transformers (5.24) takes from `tokenizer_config.json` is taken: special tokens and whether they are
//! added, added tokens, chat templates. `truncation` and `padding` of `tokenizer.json` concern batches
//! of training text and have no part in generation; `clean_up_tokenization_spaces` would change what
//! the ids say and is not applied, as transformers does not for BPE.

mod config;
mod decoder;
mod growth;
mod model;
mod node;
mod normalizer;
mod post_processor;
mod pre_tokenizer;

use std::collections::HashSet;

use ::tokenizers::AddedToken;
use serde::Deserialize;
use serde_json::Value;

use self::{config::Config, growth::Growth, model::ModelFile, node::Node};
use super::{TokenizerParts, encoder::Encoder, invalid};
use crate::error::{Error, Result};

/// The parts of `tokenizer.json`.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct File {
    version: Option<String>,
    #[serde(default)]
    added_tokens: Vec<Added>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    #[serde(default)]
    decoder: Value,
    model: ModelFile,
}

/// A token that is recognised whole.
#[derive(Deserialize)]
#[serde(expecting = "an added token")]
struct Added {
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default = "yes")]
    normalized: bool,
    #[serde(default)]
    special: bool,
}

fn yes() -> bool {
    true
}

impl From<Added> for AddedToken {
    fn from(added: Added) -> Self {
        Self {
            content: added.content,
            single_word: added.single_word,
            lstrip: added.lstrip,
            rstrip: added.rstrip,
            normalized: added.normalized,
            special: added.special,
        }
    }
}

/// Builds the parts of a tokenizer from the two files.
pub(super) fn build(tokenizer: &[u8], config: Option<&[u8]>) -> Result<TokenizerParts> {
    let file: File =
        serde_json::from_slice(tokenizer).map_err(|e| invalid(format!("tokenizer.json: {e}")))?;
    if file
        .version
        .as_deref()
        .is_some_and(|version| version != "1.0")
    {
        return Err(Error::unsupported(format!(
            "tokenizer.json: version is {:?}, supported is \"1.0\"",
            file.version.unwrap_or_default()
        )));
    }
    let config = config.map_or_else(|| Ok(Config::default()), Config::new)?;

    let mut added: Vec<AddedToken> = file.added_tokens.into_iter().map(Into::into).collect();
    added.extend(config.added_tokens());
    let (model, highest) = model::build(file.model)?;
    let mut growth = Growth::default();
    let encoder = Encoder::new(
        model,
        highest,
        normalizer::build(Node::root("normalizer", &file.normalizer), &mut growth)?,
        pre_tokenizer::build(
            Node::root("pre_tokenizer", &file.pre_tokenizer),
            &mut growth,
        )?,
        added,
        config.split_special_tokens(),
    )?;
    let special = config.special_tokens(&encoder);
    let around = match config.around(&special) {
        Some(around) => around,
        None => post_processor::build(Node::root("post_processor", &file.post_processor))?,
    };
    if let Some(id) = around.highest().filter(|&id| id as usize >= encoder.len()) {
        return Err(invalid(format!(
            "tokenizer.json: post_processor adds the id {id}, the vocabulary has {}",
            encoder.len()
        )));
    }
    Ok(TokenizerParts {
        around,
        steps: decoder::build(Node::root("decoder", &file.decoder))?,
        templates: config.templates()?,
        special,
        encoder,
        silent: HashSet::new(),
    })
}
