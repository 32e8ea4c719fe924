//! The decoders of `tokenizer.json` as steps that work on a stream.
//!
//! Tokens first pass the [`TokenStep`]s, each of which sees whole tokens; a fusing step (or the end of
//! the list) joins them, and the [`TextStep`]s see the joined text in pieces. What each step computes is
//! defined by the `decode_chain` functions of the `tokenizers` crate; here each also says which part of
//! its output can no longer change.

mod text;
mod token;

use self::{text::TextState, token::TokenState};
pub(super) use self::{
    text::{Strip, TextStep},
    token::TokenStep,
};
use super::bytes;
use crate::error::Result;

/// A tokenizer's decoder.
#[derive(Clone, Default)]
pub(super) struct Steps {
    /// The steps that see tokens.
    pub tokens: Vec<TokenStep>,
    /// Whether tokens are in the byte-level alphabet when they are joined.
    pub byte_level: bool,
    /// The steps that see the joined text.
    pub text: Vec<TextStep>,
}

impl Steps {
    /// A stream at its start.
    pub fn start(&self) -> Stream {
        Stream {
            tokens: self.tokens.iter().cloned().map(TokenState::new).collect(),
            byte_level: self.byte_level.then(Vec::new),
            text: self.text.iter().cloned().map(TextState::new).collect(),
        }
    }
}

/// One text on its way through the steps.
#[derive(Clone)]
pub(super) struct Stream {
    tokens: Vec<TokenState>,
    /// With byte-level tokens: the bytes of a character that is not complete.
    byte_level: Option<Vec<u8>>,
    text: Vec<TextState>,
}

impl Stream {
    /// Takes a token and appends to `out` what is now certain.
    pub fn push(&mut self, token: &str, out: &mut String) -> Result<()> {
        let mut joined = Vec::new();
        run_tokens(&mut self.tokens, token.to_owned(), &mut joined)?;
        self.join(&joined, out);
        Ok(())
    }

    /// Appends to `out` what was held back.
    pub fn finish(&mut self, out: &mut String) -> Result<()> {
        for i in 0..self.tokens.len() {
            let (this, rest) = self.tokens[i..].split_at_mut(1);
            let mut released = Vec::new();
            this[0].finish(&mut released);
            let mut joined = Vec::new();
            for token in released {
                run_tokens(rest, token, &mut joined)?;
            }
            self.join(&joined, out);
        }
        if let Some(pending) = &mut self.byte_level
            && !std::mem::take(pending).is_empty()
        {
            run_text(&mut self.text, "\u{FFFD}", out);
        }
        for i in 0..self.text.len() {
            let (this, rest) = self.text[i..].split_at_mut(1);
            let mut released = String::new();
            this[0].finish(&mut released);
            run_text(rest, &released, out);
        }
        Ok(())
    }

    fn join(&mut self, tokens: &[String], out: &mut String) {
        for token in tokens {
            match &mut self.byte_level {
                None => run_text(&mut self.text, token, out),
                Some(pending) => {
                    bytes::push_bytes(token, pending);
                    let mut text = String::new();
                    bytes::take_text(pending, &mut text);
                    run_text(&mut self.text, &text, out);
                }
            }
        }
    }
}

fn run_tokens(steps: &mut [TokenState], token: String, joined: &mut Vec<String>) -> Result<()> {
    let Some((first, rest)) = steps.split_first_mut() else {
        joined.push(token);
        return Ok(());
    };
    let mut released = Vec::new();
    first.push(token, &mut released)?;
    for token in released {
        run_tokens(rest, token, joined)?;
    }
    Ok(())
}

fn run_text(steps: &mut [TextState], text: &str, out: &mut String) {
    if text.is_empty() {
        return;
    }
    let Some((first, rest)) = steps.split_first_mut() else {
        out.push_str(text);
        return;
    };
    let mut released = String::new();
    first.push(text, &mut released);
    run_text(rest, &released, out);
}
