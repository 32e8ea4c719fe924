//! From token ids to the text a reader sees: whole characters, no special tokens, and nothing of a
//! stop string.
//!
//! Stop strings are looked for in the text *with* special tokens and with the prompt before it, as
//! Hugging Face does; what is shown is the text without either. So two decoders run side by side when
//! there are stop strings, and pieces are held in pairs until no stop string can begin in them.

use std::collections::VecDeque;

use super::stopping::{
    StopStrings,
    stop_strings::{Verdict, floor_boundary},
};
use crate::{
    error::Result,
    tokenizer::{Decoder, Tokenizer},
};

/// The text of one sequence as its tokens arrive.
pub struct Streamer {
    visible: Decoder,
    search: Option<Search>,
}

/// What a token led to.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Text that is now certain to be part of the answer; may be empty.
    pub text: String,
    /// Whether a stop string was completed; the answer's text ends with `text` then.
    pub stopped: bool,
}

struct Search {
    full: Decoder,
    stops: StopStrings,
    held: VecDeque<Piece>,
    stopped: bool,
}

/// One token's text with special tokens, and what a reader sees of it.
struct Piece {
    full: String,
    visible: String,
}

impl Streamer {
    /// A streamer for the answer to `prompt`, which ends before the first of `stop_strings`.
    pub fn new(tokenizer: &Tokenizer, stop_strings: &[String], prompt: &[u32]) -> Result<Self> {
        let search = match stop_strings.iter().map(String::len).max() {
            None => None,
            Some(longest) => Some(Search::new(tokenizer, stop_strings, longest, prompt)?),
        };
        Ok(Self {
            visible: Decoder::new(tokenizer, true),
            search,
        })
    }

    /// Takes the next token, which is not an end token.
    pub fn push(&mut self, id: u32) -> Result<Shown> {
        let visible = self.visible.push(id)?;
        match &mut self.search {
            Some(search) => search.push(id, visible),
            None => Ok(Shown {
                text: visible,
                stopped: false,
            }),
        }
    }

    /// What was held back, now that no token follows. Nothing after a stop string.
    pub fn finish(&mut self) -> Result<String> {
        let mut text = String::new();
        if let Some(search) = &mut self.search {
            if search.stopped {
                return Ok(text);
            }
            text.extend(search.held.drain(..).map(|piece| piece.visible));
        }
        text.push_str(&self.visible.finish()?);
        Ok(text)
    }
}

impl Search {
    fn new(
        tokenizer: &Tokenizer,
        stops: &[String],
        longest: usize,
        prompt: &[u32],
    ) -> Result<Self> {
        // A stop string that begins in the prompt takes at most its own length in tokens there; some
        // tokens have no text, hence the margin.
        let tail = &prompt[prompt.len().saturating_sub(longest + 8)..];
        let mut full = Decoder::new(tokenizer, false);
        let mut before = String::new();
        for &id in tail {
            before.push_str(&full.push(id)?);
        }
        let (stops, pending) = StopStrings::new(stops, &before);
        let prompt = Piece {
            full: before.split_off(before.len() - pending),
            visible: String::new(),
        };
        Ok(Self {
            full,
            stops,
            held: VecDeque::from([prompt]),
            stopped: false,
        })
    }

    fn push(&mut self, id: u32, visible: String) -> Result<Shown> {
        let full = self.full.push(id)?;
        let verdict = self.stops.push(&full);
        self.held.push_back(Piece { full, visible });
        let (bytes, stopped) = match verdict {
            Verdict::Release(bytes) => (bytes, false),
            Verdict::Stop(at) => (at, true),
        };
        self.stopped = stopped;
        Ok(Shown {
            text: self.release(bytes),
            stopped,
        })
    }

    /// The visible part of the first `bytes` of the held text.
    fn release(&mut self, mut bytes: usize) -> String {
        let mut text = String::new();
        while let Some(piece) = self.held.front_mut() {
            if piece.full.len() > bytes {
                // The visible text may lack a leading space that the full text has.
                let stripped = piece.full.len().saturating_sub(piece.visible.len());
                let cut = floor_boundary(&piece.visible, bytes.saturating_sub(stripped));
                text.extend(piece.visible.drain(..cut));
                piece.full.drain(..floor_boundary(&piece.full, bytes));
                return text;
            }
            bytes -= piece.full.len();
            text.push_str(&piece.visible);
            self.held.pop_front();
        }
        text
    }
}
