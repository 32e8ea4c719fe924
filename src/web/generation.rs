//! A generation for JavaScript.

use std::cell::RefCell;

use wasm_bindgen::prelude::wasm_bindgen;

use super::json;
use crate::{
    error::{Error, Result},
    generation::{self, Pull, StopHandle},
};

/// A running call. `stop` may be called while `next` is pending.
#[wasm_bindgen]
pub struct Generation {
    /// Away while a token is being computed, so that nothing is borrowed across the wait.
    inner: RefCell<Option<generation::Generation>>,
    stop: StopHandle,
    /// Scores of the result, until they are asked for.
    scores: RefCell<Scores>,
}

/// Rows of scores, one after another.
#[derive(Default)]
struct Scores {
    processed: Option<Vec<f32>>,
    logits: Option<Vec<f32>>,
}

impl From<generation::Generation> for Generation {
    fn from(generation: generation::Generation) -> Self {
        Self {
            stop: generation.stop_handle(),
            inner: RefCell::new(Some(generation)),
            scores: RefCell::default(),
        }
    }
}

#[wasm_bindgen]
impl Generation {
    /// The next event as JSON, undefined at the end. After a step without an event it is `null`: others
    /// have their turn before the next step.
    pub async fn next(&self) -> Result<Option<String>> {
        let mut generation = self.take()?;
        let pulled = generation.pull().await;
        self.inner.replace(Some(generation));
        Ok(match pulled? {
            Pull::Token(event) => Some(json::event(&event).to_string()),
            Pull::Nothing => Some("null".into()),
            Pull::End => None,
        })
    }

    /// Asks for the end: the event being computed is the last one computed, and is not shown.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// Ends the work and answers the result as JSON. Where scores or logits are wanted, `steps` holds
    /// how many steps each row has.
    pub fn result(&self) -> Result<String> {
        let mut output = self.take()?.finish()?;
        let [processed, logits] = [output.scores.take(), output.logits.take()];
        let mut value = json::output(&output);
        if let Some(rows) = processed.as_ref().or(logits.as_ref()) {
            value["steps"] = rows.iter().map(Vec::len).collect();
        }
        let flat = |rows: Vec<Vec<Vec<f32>>>| rows.into_iter().flatten().flatten().collect();
        self.scores.replace(Scores {
            processed: processed.map(flat),
            logits: logits.map(flat),
        });
        Ok(value.to_string())
    }

    /// The result's processed scores, row after row, step after step; undefined where not asked for.
    pub fn scores(&self) -> Option<Vec<f32>> {
        self.scores.borrow_mut().processed.take()
    }

    /// The result's logits, in the same order.
    pub fn logits(&self) -> Option<Vec<f32>> {
        self.scores.borrow_mut().logits.take()
    }

    fn take(&self) -> Result<generation::Generation> {
        let generation = self.inner.take();
        generation
            .ok_or_else(|| Error::internal("a token is being computed, or the generation is over"))
    }
}
