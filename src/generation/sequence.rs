//! One sequence of a call: its ids, its pages, its scores, its text.

use std::ops::Range;

use super::{
    batch::Pending,
    cache::PageTable,
    engine::Shared,
    stopping::StopReason,
    streamer::{Shown, Streamer},
};
use crate::error::Result;

/// Ids that a model evaluates in order, the pages that hold some of them, and the logits that came out.
pub(super) struct Track {
    /// Prompt, answer, and the draft that waits to be verified.
    pub ids: Vec<u32>,
    /// How many of them are the prompt.
    pub prompt_length: usize,
    /// How many of the last ones are a draft.
    pub draft: usize,
    /// Where keys and values lie; `None` before it begins and after it ends.
    pub table: Option<PageTable>,
    /// Logits of the next token, a row for the ids without the draft and one after each id of the draft,
    /// as far as they are evaluated.
    pub logits: Vec<f32>,
}

impl Track {
    /// A track that has not begun.
    pub fn new(prompt: Vec<u32>) -> Self {
        Self {
            prompt_length: prompt.len(),
            ids: prompt,
            draft: 0,
            table: None,
            logits: Vec::new(),
        }
    }

    /// Takes the pages for prompt and answer, `longest` tokens in all, of this track and its forks,
    /// `branches` in all. Without `caching` every step evaluates all ids again.
    pub fn begin(
        &mut self,
        engine: &Shared,
        longest: usize,
        branches: usize,
        caching: bool,
    ) -> Result<()> {
        let known: &[u32] = if caching { &self.ids } else { &[] };
        // The last token is never evaluated, so it needs no position.
        self.table = Some(engine.pool.table(known, longest - 1, branches)?);
        Ok(())
    }

    /// Its ids and pages, if it runs. A step evaluates at most `chunk` of the ids.
    pub fn pending(&mut self, chunk: usize) -> Option<Pending<'_>> {
        let wanted = self.length() - 1;
        Some(Pending {
            ids: &self.ids,
            table: self.table.as_mut()?,
            wanted,
            most: chunk,
            copies: 1,
        })
    }

    /// Ids without the draft.
    pub fn length(&self) -> usize {
        self.ids.len() - self.draft
    }

    /// Where the logits after the first `at` ids of the draft are.
    pub fn row(&self, at: usize) -> Range<usize> {
        let vocabulary = self.logits.len() / (self.draft + 1);
        at * vocabulary..(at + 1) * vocabulary
    }

    /// Counts `rows` more ids as evaluated, and takes the logits of those whose logits are wanted;
    /// returns how many ids are of the prompt.
    pub fn advance<'a>(
        &mut self,
        rows: usize,
        logits: &mut impl Iterator<Item = &'a [f32]>,
    ) -> usize {
        let wanted = self.length() - 1;
        let Some(table) = &mut self.table else {
            return 0;
        };
        let start = table.length();
        table.advance(rows);
        for row in logits.take((start + rows).saturating_sub(wanted.max(start))) {
            self.logits.extend_from_slice(row);
        }
        (start + rows).min(self.prompt_length) - start.min(self.prompt_length)
    }

    /// Whether all its ids are evaluated.
    pub fn is_evaluated(&self) -> bool {
        let table = self.table.as_ref();
        table.is_some_and(|table| table.length() == self.ids.len())
    }

    /// Keeps the first `length` ids and appends `token`, which is not evaluated yet.
    pub fn go_on(&mut self, length: usize, token: u32, caching: bool) {
        self.ids.truncate(length);
        self.ids.push(token);
        self.draft = 0;
        if let Some(table) = &mut self.table {
            table.rewind(if caching { length } else { 0 });
        }
    }

    /// The same ids for a sequence that goes on differently.
    pub fn fork(&self) -> Self {
        Self {
            ids: self.ids.clone(),
            prompt_length: self.prompt_length,
            draft: self.draft,
            table: self.table.as_ref().map(PageTable::fork),
            logits: self.logits.clone(),
        }
    }
}

/// The log-probability of a token that was chosen, and those of the best ones it was chosen from.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenScore {
    /// Of the processed scores; natural logarithm.
    pub logprob: f32,
    /// The best tokens, best first, without those that were removed.
    pub top: Vec<(u32, f32)>,
}

/// A prompt and its answer so far.
pub(super) struct Sequence {
    /// Ids of prompt and answer.
    pub main: Track,
    /// The same answer after the negative prompt, where there is guidance.
    pub guide: Option<Track>,
    /// How many rows of the main track's logits have been processed.
    pub processed: usize,
    /// In place of logits: the tokens that a search may go on with and their processed scores, in the order
    /// of ids, where the device found them.
    pub listed: Vec<(u32, f32)>,
    /// The answer's text so far.
    pub text: String,
    /// Makes the text; `None` while the sequence does not run, and where nobody reads along.
    pub streamer: Option<Streamer>,
    /// Rows of the main track's logits as they were before the processors, if they are wanted.
    pub raw: Vec<f32>,
    /// For each token of the answer its processed score, if scores are wanted.
    pub transition_scores: Vec<f32>,
    /// For each token of the answer, if they are wanted.
    pub token_scores: Vec<TokenScore>,
    /// For each token of the answer, the beam that it was chosen from, in beam search.
    pub beam_indices: Vec<usize>,
    /// Why it ended; `None` while it runs.
    pub reason: Option<StopReason>,
}

impl Sequence {
    /// A sequence that has not begun and holds nothing but its prompt.
    pub fn new(prompt: Vec<u32>, negative_prompt: Option<Vec<u32>>) -> Self {
        Self {
            main: Track::new(prompt),
            guide: negative_prompt.map(Track::new),
            processed: 0,
            listed: Vec::new(),
            text: String::new(),
            streamer: None,
            raw: Vec::new(),
            transition_scores: Vec::new(),
            token_scores: Vec::new(),
            beam_indices: Vec::new(),
            reason: None,
        }
    }

    /// Its tracks.
    pub fn tracks(&mut self) -> impl Iterator<Item = &mut Track> {
        std::iter::once(&mut self.main).chain(&mut self.guide)
    }

    /// Whether everything is evaluated that the next choice needs.
    pub fn is_evaluated(&self) -> bool {
        let guide = self.guide.as_ref();
        self.main.is_evaluated() && guide.is_none_or(Track::is_evaluated)
    }

    /// Whether the scores are processed that the next choice needs.
    pub fn is_ready(&self) -> bool {
        self.is_evaluated() && self.processed == self.main.draft + 1
    }

    /// Tokens of the answer, without the draft.
    pub fn new_tokens(&self) -> usize {
        self.main.length() - self.main.prompt_length
    }

    /// The ids of the answer.
    pub fn answer(&self) -> Vec<u32> {
        self.main.ids[self.main.prompt_length..self.main.length()].to_vec()
    }

    /// Proposes `draft` as the next tokens.
    pub fn propose(&mut self, draft: &[u32]) {
        for track in self.tracks() {
            track.ids.extend_from_slice(draft);
            track.draft = draft.len();
        }
    }

    /// Takes the first `accepted` tokens of the draft, which are right, and `token` after them.
    pub fn go_on(&mut self, accepted: usize, token: u32, caching: bool) {
        for track in self.tracks() {
            track.go_on(track.length() + accepted, token, caching);
        }
        self.forget_scores();
    }

    /// Forgets the scores that the last choice was made from.
    pub fn forget_scores(&mut self) {
        for track in self.tracks() {
            track.logits.clear();
        }
        self.raw.clear();
        self.listed.clear();
        self.processed = 0;
    }

    /// Text of a token that was appended. An end token has none, whatever it stands for elsewhere.
    pub fn show(&mut self, token: u32, is_end: bool) -> Result<Shown> {
        match &mut self.streamer {
            Some(streamer) if !is_end => streamer.push(token),
            _ => Ok(Shown::default()),
        }
    }

    /// The same sequence, to go on differently.
    pub fn fork(&self) -> Self {
        Self {
            main: self.main.fork(),
            guide: self.guide.as_ref().map(Track::fork),
            processed: self.processed,
            listed: self.listed.clone(),
            text: self.text.clone(),
            streamer: self.streamer.clone(),
            raw: self.raw.clone(),
            transition_scores: self.transition_scores.clone(),
            token_scores: self.token_scores.clone(),
            beam_indices: self.beam_indices.clone(),
            reason: self.reason,
        }
    }

    /// Gives its pages back for a fork of another sequence.
    pub fn replace(mut self) {
        for table in self.tracks().filter_map(|track| track.table.take()) {
            table.replace();
        }
    }

    /// Ends it: for a reason, after which its pages are kept for a prompt that begins alike, or because
    /// of an error, after which nothing of it can be trusted. Returns the text that was held back.
    pub fn end(&mut self, reason: Option<StopReason>) -> Result<String> {
        self.reason = reason;
        for track in self.tracks() {
            track.ids.truncate(track.length());
            track.draft = 0;
            track.logits = Vec::new();
        }
        if let Some(guide) = &mut self.guide {
            guide.table = None;
        }
        if let Some(table) = self.main.table.take()
            && reason.is_some()
        {
            table.retain(&self.main.ids);
        }
        match self.streamer.take() {
            Some(mut streamer) => streamer.finish(),
            None => Ok(String::new()),
        }
    }
}
