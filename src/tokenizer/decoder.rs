//! Ids → text, one id at a time.
//!
//! A decoder gives out text as soon as no later id can change it, and never half a character. What it
//! gives out over time joins to exactly what [`Tokenizer::decode`] gives for all ids at once, because
//! that function is this decoder run to the end.

use std::sync::Arc;

use super::{Tokenizer, TokenizerParts, steps::Stream};
use crate::error::Result;

/// Turns ids into text as they come. The work per id does not grow with the number of ids.
#[derive(Clone)]
pub struct Decoder {
    parts: Arc<TokenizerParts>,
    skip_special_tokens: bool,
    stream: Stream,
}

impl Decoder {
    /// A decoder at the start of a text.
    pub fn new(tokenizer: &Tokenizer, skip_special_tokens: bool) -> Self {
        Self {
            parts: tokenizer.parts.clone(),
            skip_special_tokens,
            stream: tokenizer.parts.steps.start(),
        }
    }

    /// Takes the next id and gives the text that is now certain, which may be empty.
    ///
    /// Ids that the tokenizer does not have (models pad their vocabulary) and ids of unused tokens stand
    /// for no text.
    ///
    /// # Errors
    /// A pattern of the tokenizer's own decoder cannot be applied.
    pub fn push(&mut self, id: u32) -> Result<String> {
        let mut text = String::new();
        if let Some(token) = self.parts.text_of(id, self.skip_special_tokens) {
            self.stream.push(&token, &mut text)?;
        }
        Ok(text)
    }

    /// The text that [`finish`](Self::finish) would give now. Nothing changes: a later id may still make
    /// other text of it.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn peek(&self) -> Result<String> {
        let mut text = String::new();
        self.stream.clone().finish(&mut text)?;
        Ok(text)
    }

    /// Gives the text that was held back, now that no id follows; the decoder is then at the start of
    /// a new text.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(&mut self) -> Result<String> {
        let mut text = String::new();
        self.stream.finish(&mut text)?;
        self.stream = self.parts.steps.start();
        Ok(text)
    }
}
