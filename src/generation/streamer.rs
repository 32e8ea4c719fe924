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
#[derive(Clone)]
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

#[derive(Clone)]
struct Search {
    full: Decoder,
    /// Text of the prompt that the decoder has not given out yet.
    lead: String,
    stops: StopStrings,
    held: VecDeque<Piece>,
    stopped: bool,
}

/// One token's text with special tokens, and what a reader sees of it.
#[derive(Clone)]
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
        match &mut self.search {
            Some(search) => search.push(id, &mut self.visible),
            None => Ok(Shown {
                text: self.visible.push(id)?,
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
        let lead = full.peek()?;
        before.push_str(&lead);
        let (stops, pending) = StopStrings::new(stops, &before);
        let prompt = Piece {
            full: before.split_off(before.len() - pending),
            visible: String::new(),
        };
        Ok(Self {
            full,
            lead,
            stops,
            held: VecDeque::from([prompt]),
            stopped: false,
        })
    }

    fn push(&mut self, id: u32, visible: &mut Decoder) -> Result<Shown> {
        let full = self.full.push(id)?;
        let own = without(&full, &self.lead).to_owned();
        if !full.is_empty() {
            self.lead.clear();
        }
        let verdict = self.stops.push(&own);
        self.held.push_back(Piece {
            full: own,
            visible: visible.push(id)?,
        });
        let mut text = match verdict {
            Verdict::Release(bytes) | Verdict::Stop(bytes) => self.release(bytes),
        };
        self.stopped = matches!(verdict, Verdict::Stop(_));
        if !self.stopped {
            // What the decoder holds back is certain if the answer ends here, so it may complete a stop
            // string, and the answer then does end here.
            let full = self.full.peek()?;
            let full = without(&full, &self.lead).to_owned();
            if let Some(at) = self.stops.peek(&full).filter(|_| !full.is_empty()) {
                self.stopped = true;
                self.held.push_back(Piece {
                    full,
                    visible: visible.finish()?,
                });
                text.push_str(&self.release(at));
            }
        }
        Ok(Shown {
            text,
            stopped: self.stopped,
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

/// `text` without `lead`, if it begins with that.
fn without<'a>(text: &'a str, lead: &str) -> &'a str {
    text.strip_prefix(lead).unwrap_or(text)
}
