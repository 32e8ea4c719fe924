//! Steps that see whole tokens.

use ::tokenizers::{Decoder as _, normalizers::Replace};

use super::{
    super::{bytes, invalid},
    Strip,
};
use crate::error::Result;

/// A step that sees one whole token after another.
#[derive(Clone)]
pub(in crate::tokenizer) enum TokenStep {
    /// Joins tokens with a space: what the crate does for a tokenizer without a decoder.
    Spaced,
    /// Every occurrence of the first text becomes the second.
    Replace(String, String),
    /// The same with a regular expression, which the crate applies.
    ReplaceRegex(Box<Replace>),
    /// Tokens such as `<0x0A>` are bytes. A run of them is text if it is valid UTF-8 as a whole;
    /// otherwise every byte of the run is U+FFFD. So nothing of a run is certain until it ends.
    ByteFallback,
    /// Takes the character off each token's ends, at most so many times.
    Strip(Strip),
    /// The mark becomes a space, or nothing in the first token.
    Metaspace {
        /// The character that stands for a space.
        mark: char,
        /// Whether the first token loses its marks.
        strip_first: bool,
    },
    /// Tokens are joined with spaces, except those that start with the prefix.
    WordPiece {
        /// The prefix of a token that continues a word.
        prefix: String,
        /// Whether spaces before punctuation go.
        cleanup: bool,
    },
    /// The suffix ends a word: it becomes a space, or nothing in the last token.
    WordEnd(String),
    /// Connectionist temporal classification: repeats count once.
    Ctc {
        /// The token between repeats that count.
        pad: String,
        /// The token that stands for a space.
        delimiter: String,
        /// Whether spaces before punctuation go.
        cleanup: bool,
    },
}

/// A [`TokenStep`] and what it remembers of the tokens before.
#[derive(Clone)]
pub(super) struct TokenState {
    step: TokenStep,
    /// Whether a token has passed.
    started: bool,
    /// Byte fallback: the run so far, while it may still be valid.
    run: Vec<u8>,
    /// Byte fallback: how many bytes of the run are whole characters.
    whole: usize,
    /// Byte fallback: the run is not valid UTF-8, and its bytes are already replaced.
    broken: bool,
    /// Word ends: the part of the last token that depends on whether another follows.
    /// CTC: the last token.
    held: Option<String>,
}

impl TokenState {
    /// The step before any token.
    pub fn new(step: TokenStep) -> Self {
        Self {
            step,
            started: false,
            run: Vec::new(),
            whole: 0,
            broken: false,
            held: None,
        }
    }

    /// Takes a token and appends to `out` the tokens that are now certain.
    pub fn push(&mut self, token: String, out: &mut Vec<String>) -> Result<()> {
        let first = !std::mem::replace(&mut self.started, true);
        match &self.step {
            TokenStep::Spaced if first => out.push(token),
            TokenStep::Spaced => out.push(format!(" {token}")),
            TokenStep::Replace(from, to) => out.push(token.replace(from.as_str(), to)),
            TokenStep::ReplaceRegex(replace) => {
                out.extend(replace.decode_chain(vec![token]).map_err(|e| {
                    invalid(format!("decoder: the pattern of a Replace failed: {e}"))
                })?)
            }
            TokenStep::ByteFallback => match bytes::byte_of_token(&token) {
                Some(byte) => self.push_byte(byte, out),
                None => {
                    self.end_run(out);
                    out.push(token);
                }
            },
            TokenStep::Strip(strip) => out.push(strip.whole(&token).to_owned()),
            TokenStep::Metaspace { mark, strip_first } => out.push(if first && *strip_first {
                token.replace(*mark, "")
            } else {
                token.replace(*mark, " ")
            }),
            TokenStep::WordPiece { prefix, cleanup } => {
                let token = match token.strip_prefix(prefix.as_str()) {
                    _ if first => token,
                    Some(rest) => rest.to_owned(),
                    None => format!(" {token}"),
                };
                out.push(if *cleanup { clean_up(&token) } else { token });
            }
            TokenStep::WordEnd(suffix) => {
                if let Some(held) = self.held.take() {
                    out.push(held.replace(suffix.as_str(), " "));
                }
                let certain = token.find(suffix.as_str()).unwrap_or(token.len());
                out.push(token[..certain].to_owned());
                self.held = (certain < token.len()).then(|| token[certain..].to_owned());
            }
            TokenStep::Ctc {
                pad,
                delimiter,
                cleanup,
            } => {
                if self.held.as_ref() != Some(&token) {
                    let mut text = token.replace(pad.as_str(), "");
                    if *cleanup {
                        text = clean_up(&text).replace(delimiter.as_str(), " ");
                    }
                    out.push(text);
                    self.held = Some(token);
                }
            }
        }
        Ok(())
    }

    fn push_byte(&mut self, byte: u8, out: &mut Vec<String>) {
        if self.broken {
            out.push("\u{FFFD}".to_owned());
            return;
        }
        self.run.push(byte);
        match std::str::from_utf8(&self.run[self.whole..]) {
            Ok(_) => self.whole = self.run.len(),
            Err(e) if e.error_len().is_none() => {}
            Err(_) => {
                let run = std::mem::take(&mut self.run);
                out.extend(run.iter().map(|_| "\u{FFFD}".to_owned()));
                self.broken = true;
            }
        }
    }

    fn end_run(&mut self, out: &mut Vec<String>) {
        self.broken = false;
        self.whole = 0;
        match String::from_utf8(std::mem::take(&mut self.run)) {
            Ok(text) if text.is_empty() => {}
            Ok(text) => out.push(text),
            Err(e) => out.extend(e.as_bytes().iter().map(|_| "\u{FFFD}".to_owned())),
        }
    }

    /// Appends to `out` what was held back.
    pub fn finish(&mut self, out: &mut Vec<String>) {
        self.end_run(out);
        if let (TokenStep::WordEnd(suffix), Some(held)) = (&self.step, self.held.take()) {
            out.push(held.replace(suffix.as_str(), ""));
        }
    }
}

/// What the crate's word-piece decoder does to a token when `cleanup` is on.
fn clean_up(token: &str) -> String {
    [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" do not", " don't"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ]
    .iter()
    .fold(token.to_owned(), |text, (from, to)| text.replace(from, to))
}
