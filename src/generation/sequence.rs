//! One sequence of a call: its ids, its pages, its text.

use super::{
    batch::Pending,
    cache::PageTable,
    engine::Shared,
    stopping::StopReason,
    streamer::{Shown, Streamer},
};
use crate::error::Result;

/// A prompt and its answer so far.
pub(super) struct Sequence {
    /// Prompt and answer.
    pub ids: Vec<u32>,
    /// How many of them are the prompt.
    pub prompt_length: usize,
    /// The answer's text so far.
    pub text: String,
    /// Why it ended; `None` while it runs.
    pub reason: Option<StopReason>,
    /// What it holds while it runs.
    running: Option<Running>,
}

struct Running {
    table: PageTable,
    cached: usize,
    streamer: Streamer,
}

impl Sequence {
    /// A sequence that has not begun and holds nothing but its prompt.
    pub fn new(prompt: Vec<u32>) -> Self {
        Self {
            prompt_length: prompt.len(),
            ids: prompt,
            text: String::new(),
            reason: None,
            running: None,
        }
    }

    /// Takes the pages for `longest` tokens of prompt and answer.
    pub fn begin(&mut self, engine: &Shared, stops: &[String], longest: usize) -> Result<()> {
        // The last token is never evaluated, so it needs no position.
        let table = engine.pool.table(&self.ids, longest - 1)?;
        self.running = Some(Running {
            cached: table.length(),
            table,
            streamer: Streamer::new(&engine.tokenizer, stops, &self.ids)?,
        });
        Ok(())
    }

    /// Tokens of the prompt that were in the cache at the beginning.
    pub fn cached(&self) -> usize {
        self.running.as_ref().map_or(0, |running| running.cached)
    }

    /// Its ids and pages, if it runs.
    pub fn pending(&mut self) -> Option<Pending<'_>> {
        let running = self.running.as_mut()?;
        Some(Pending {
            ids: &self.ids,
            table: &mut running.table,
        })
    }

    /// Counts `rows` more ids as evaluated; returns how many of them are of the prompt.
    pub fn advance(&mut self, rows: usize) -> usize {
        let Some(running) = &mut self.running else {
            return 0;
        };
        let start = running.table.length();
        running.table.advance(rows);
        (start + rows).min(self.prompt_length) - start.min(self.prompt_length)
    }

    /// Whether all its ids are evaluated, so that the next one can be chosen.
    pub fn awaits_choice(&self) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|running| running.table.length() == self.ids.len())
    }

    /// Tokens of the answer.
    pub fn new_tokens(&self) -> usize {
        self.ids.len() - self.prompt_length
    }

    /// The ids of the answer.
    pub fn answer(&self) -> Vec<u32> {
        self.ids[self.prompt_length..].to_vec()
    }

    /// Appends a token. An end token has no text, whatever it stands for elsewhere.
    pub fn push(&mut self, token: u32, is_end: bool) -> Result<Shown> {
        self.ids.push(token);
        match &mut self.running {
            Some(running) if !is_end => running.streamer.push(token),
            _ => Ok(Shown::default()),
        }
    }

    /// Ends it: for a reason, after which its pages are kept for a prompt that begins alike, or because
    /// of an error, after which nothing of it can be trusted. Returns the text that was held back.
    pub fn end(&mut self, reason: Option<StopReason>) -> Result<String> {
        self.reason = reason;
        let Some(mut running) = self.running.take() else {
            return Ok(String::new());
        };
        if reason.is_some() {
            running.table.retain(&self.ids);
        }
        running.streamer.finish()
    }
}
