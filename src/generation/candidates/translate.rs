//! Between two tokenizers: the text goes over, in windows, so that the work of a step does not grow.
//!
//! A piece of text may fall into other tokens when what stands before it is cut off. So some tokens
//! before what is new go over with it, and where both sides agree on them tells where the new ones
//! begin. Source: `AssistedCandidateGeneratorDifferentTokenizers`; universal assisted generation,
//! Timor et al. 2025.

use super::AssistantSettings;
use crate::{error::Result, tokenizer::Tokenizer};

/// Goes between the tokens of a model and those of its assistant.
pub(super) struct Translator {
    model: Tokenizer,
    assistant: Tokenizer,
    /// Tokens of the model that go over with new ones.
    model_window: usize,
    /// Tokens of the assistant that are compared.
    assistant_window: usize,
    /// The text that went over: how many tokens of the model, and the assistant's.
    known: (usize, Vec<u32>),
}

impl Translator {
    /// A translator, unless the two tokenizers are the same.
    pub fn between(
        model: &Tokenizer,
        assistant: &Tokenizer,
        settings: &AssistantSettings,
    ) -> Option<Self> {
        let same = model.len() == assistant.len()
            && (0..model.len() as u32).all(|id| model.token(id) == assistant.token(id));
        (!same).then(|| Self {
            model: model.clone(),
            assistant: assistant.clone(),
            model_window: settings.target_lookbehind,
            assistant_window: settings.assistant_lookbehind,
            known: (0, Vec::new()),
        })
    }

    /// The assistant's tokens for the text of `ids`, which goes on from that of the last call.
    pub fn read(&mut self, ids: &[u32]) -> Result<Vec<u32>> {
        let start = self
            .known
            .0
            .min(ids.len())
            .saturating_sub(self.model_window);
        let text = self.model.decode(&ids[start..], false)?;
        let fresh = self.assistant.encode(&text, false)?;
        let joined = match start {
            0 => None,
            _ => joined(&self.known.1, &fresh, self.assistant_window),
        };
        let all = match joined {
            Some(joined) => joined,
            // Nothing to hold on to: all of the text goes over.
            None if start > 0 => self
                .assistant
                .encode(&self.model.decode(ids, false)?, false)?,
            None => fresh,
        };
        self.known = (ids.len(), all.clone());
        Ok(all)
    }

    /// The model's tokens for what the assistant's tokens from `first` on say, after `ids`.
    pub fn to_model(&self, ids: &[u32], assistant: &[u32], first: usize) -> Result<Vec<u32>> {
        let window = &assistant[first.saturating_sub(self.assistant_window)..];
        let kept = window.len() - (assistant.len() - first);
        let before = self.assistant.decode(&window[..kept], false)?;
        let after = self.assistant.decode(window, false)?;
        // A character that is incomplete before looks different after.
        let Some(new) = after.strip_prefix(before.as_str()) else {
            return Ok(Vec::new());
        };
        let tail = &ids[ids.len().saturating_sub(self.model_window)..];
        let text = self.model.decode(tail, false)? + new;
        let tokens = self.model.encode(&text, false)?;
        Ok(match tokens.strip_prefix(tail) {
            Some(new) => new.to_vec(),
            None => self.model.encode(new, false)?,
        })
    }
}

/// `known` with what `fresh` says beyond it: `fresh` covers the end of the same text and goes on. They
/// are joined where the longest run of equal tokens lies, among the last `window` of `known`; `None`
/// where they have nothing in common.
fn joined(known: &[u32], fresh: &[u32], window: usize) -> Option<Vec<u32>> {
    let from = known.len().saturating_sub(window);
    let mut best: Option<(usize, usize, usize)> = None;
    for end in (from + 1..=known.len()).rev() {
        for until in 1..=fresh.len() {
            let pairs = known[from..end]
                .iter()
                .rev()
                .zip(fresh[..until].iter().rev());
            let run = pairs.take_while(|(a, b)| a == b).count();
            if run > best.map_or(0, |(run, ..)| run) {
                best = Some((run, end, until));
            }
        }
    }
    let (_, end, until) = best?;
    Some([&known[..end], &fresh[until..]].concat())
}
