//! Finding stop strings in text that arrives in pieces.
//!
//! A stop string may begin anywhere in one piece and end anywhere in another. Text is released when no
//! stop string can begin in it any more; what is released never holds any part of a stop string that is
//! found later.

/// Looks for stop strings in a stream of text.
#[derive(Debug, Clone)]
pub struct StopStrings {
    stops: Vec<String>,
    longest: usize,
    /// What arrived and was not released: a beginning of some stop string.
    pending: String,
}

/// What a piece of text led to. Both count bytes from the beginning of the text that is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No stop string is complete; this much is released.
    Release(usize),
    /// A stop string begins here.
    Stop(usize),
}

impl StopStrings {
    /// A search for `stops`, none of which is empty, after `before`: a stop string may begin there, but
    /// not end there. Returns how much of the end of `before` is pending.
    pub fn new(stops: &[String], before: &str) -> (Self, usize) {
        let longest = stops.iter().map(String::len).max().unwrap_or(0);
        let mut search = Self {
            stops: stops.to_vec(),
            longest,
            pending: before.into(),
        };
        search.release(search.safe());
        let pending = search.pending.len();
        (search, pending)
    }

    /// Takes the next piece. After [`Verdict::Stop`] the search is over.
    pub fn push(&mut self, piece: &str) -> Verdict {
        if let Some(at) = self.peek(piece) {
            return Verdict::Stop(at);
        }
        self.pending.push_str(piece);
        let safe = self.safe();
        self.release(safe);
        Verdict::Release(safe)
    }

    /// Where a stop string would begin if `piece` came next; nothing changes.
    pub fn peek(&self, piece: &str) -> Option<usize> {
        let text = [&self.pending, piece].concat();
        // A match must reach into the new piece: text before the answer may hold whole stop strings.
        let first = self.stops.iter().filter_map(|stop| {
            let from = (self.pending.len() + 1).saturating_sub(stop.len());
            let from = floor_boundary(&text, from);
            text[from..].find(stop.as_str()).map(|at| from + at)
        });
        first.min()
    }

    /// Bytes of the pending text before the first place where a stop string may have begun.
    fn safe(&self) -> usize {
        let from = (self.pending.len() + 1).saturating_sub(self.longest);
        let from = floor_boundary(&self.pending, from);
        let begins = |at: &usize| {
            let tail = &self.pending[*at..];
            self.stops
                .iter()
                .any(|stop| tail.len() < stop.len() && stop.starts_with(tail))
        };
        let mut starts = self.pending[from..].char_indices().map(|(at, _)| from + at);
        starts.find(begins).unwrap_or(self.pending.len())
    }

    fn release(&mut self, bytes: usize) {
        self.pending.drain(..bytes);
    }
}

/// The greatest character boundary of `text` at or before `at`.
pub(in crate::generation) fn floor_boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at)
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0)
}
