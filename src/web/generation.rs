//! A generation for JavaScript.

use std::cell::RefCell;

use wasm_bindgen::prelude::wasm_bindgen;

use super::json;
use crate::{
    error::{Error, Result},
    generation::{self, StopHandle},
};

/// A running call. `stop` may be called while `next` is pending.
#[wasm_bindgen]
pub struct Generation {
    /// Away while a token is being computed, so that nothing is borrowed across the wait.
    inner: RefCell<Option<generation::Generation>>,
    stop: StopHandle,
}

impl From<generation::Generation> for Generation {
    fn from(generation: generation::Generation) -> Self {
        Self {
            stop: generation.stop_handle(),
            inner: RefCell::new(Some(generation)),
        }
    }
}

#[wasm_bindgen]
impl Generation {
    /// The next event as JSON, or undefined at the end.
    pub async fn next(&self) -> Result<Option<String>> {
        let mut generation = self.take()?;
        let event = generation.next().await;
        self.inner.replace(Some(generation));
        Ok(event?.map(|event| json::event(&event).to_string()))
    }

    /// Asks for the end: the event being computed is the last one computed, and is not shown.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// Ends the work and answers the result as JSON.
    pub fn result(&self) -> Result<String> {
        let output = self.take()?.finish()?;
        Ok(json::output(&output).to_string())
    }

    fn take(&self) -> Result<generation::Generation> {
        let generation = self.inner.take();
        generation
            .ok_or_else(|| Error::internal("a token is being computed, or the generation is over"))
    }
}
