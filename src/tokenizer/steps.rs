//! The decoders of `tokenizer.json` as steps that work on a stream.
//!
//! Tokens first pass the [`TokenStep`]s, each of which sees whole tokens; a fusing step (or the end of
//! the list) joins them, and the [`TextStep`]s see the joined text in pieces. What each step computes is
//! defined by the `decode_chain` functions of the `tokenizers` crate; here each also says which part of
//! its output can no longer change.

use ::tokenizers::{Decoder as _, normalizers::Replace};

use super::{bytes, invalid};
use crate::error::Result;

/// A step that sees one whole token after another.
#[derive(Clone)]
pub(super) enum TokenStep {
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

/// A step that sees the joined text.
#[derive(Clone)]
pub(super) enum TextStep {
    /// Every occurrence of the first text, which is not empty, becomes the second.
    Replace(String, String),
    /// Takes the character off the ends of the whole text.
    Strip(Strip),
}

/// A character to take off, and how often at most at each end.
#[derive(Clone, Copy)]
pub(super) struct Strip {
    /// The character.
    pub content: char,
    /// How often at the start.
    pub start: usize,
    /// How often at the end.
    pub stop: usize,
}

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

/// A [`TokenStep`] and what it remembers of the tokens before.
#[derive(Clone)]
struct TokenState {
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
    fn new(step: TokenStep) -> Self {
        Self {
            step,
            started: false,
            run: Vec::new(),
            whole: 0,
            broken: false,
            held: None,
        }
    }

    fn push(&mut self, token: String, out: &mut Vec<String>) -> Result<()> {
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

    fn finish(&mut self, out: &mut Vec<String>) {
        self.end_run(out);
        if let (TokenStep::WordEnd(suffix), Some(held)) = (&self.step, self.held.take()) {
            out.push(held.replace(suffix.as_str(), ""));
        }
    }
}

/// A [`TextStep`] and what it holds back.
#[derive(Clone)]
struct TextState {
    step: TextStep,
    /// Strip: how often the character can still go at the start.
    left: usize,
    /// The end of the text so far, which later text can change.
    held: String,
}

impl TextState {
    fn new(step: TextStep) -> Self {
        let left = match &step {
            TextStep::Strip(strip) => strip.start,
            TextStep::Replace(..) => 0,
        };
        Self {
            step,
            left,
            held: String::new(),
        }
    }

    fn push(&mut self, text: &str, out: &mut String) {
        match &self.step {
            TextStep::Replace(from, to) => {
                self.held.push_str(text);
                let mut done = 0;
                for (at, _) in self.held.match_indices(from.as_str()) {
                    out.push_str(&self.held[done..at]);
                    out.push_str(to);
                    done = at + from.len();
                }
                let rest = &self.held[done..];
                // What could be the beginning of another occurrence stays.
                let keep = (1..from.len().min(rest.len() + 1))
                    .rev()
                    .find(|&n| rest.as_bytes().ends_with(&from.as_bytes()[..n]))
                    .unwrap_or(0);
                out.push_str(&rest[..rest.len() - keep]);
                self.held = rest[rest.len() - keep..].to_owned();
            }
            TextStep::Strip(strip) => {
                let mut text = text;
                while self.left > 0 && !text.is_empty() {
                    match text.strip_prefix(strip.content) {
                        Some(rest) => {
                            text = rest;
                            self.left -= 1;
                        }
                        None => self.left = 0,
                    }
                }
                if strip.stop == 0 {
                    out.push_str(text);
                    return;
                }
                self.held.push_str(text);
                let trailing =
                    self.held.len() - strip.content.len_utf8() * strip.trailing(&self.held);
                out.extend(self.held.drain(..trailing));
            }
        }
    }

    fn finish(&mut self, out: &mut String) {
        // Strip holds only what goes at the end; Replace holds a beginning that did not complete.
        if let TextStep::Replace(..) = self.step {
            out.push_str(&self.held);
        }
        self.held.clear();
    }
}

impl Strip {
    fn whole<'t>(&self, token: &'t str) -> &'t str {
        let mut text = token;
        for _ in 0..self.start {
            match text.strip_prefix(self.content) {
                Some(rest) => text = rest,
                None => break,
            }
        }
        &text[..text.len() - self.content.len_utf8() * self.trailing(text)]
    }

    /// How many characters would go at the end of `text`.
    fn trailing(&self, text: &str) -> usize {
        text.chars()
            .rev()
            .take(self.stop)
            .take_while(|&c| c == self.content)
            .count()
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
