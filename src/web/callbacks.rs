//! The caller's functions for the engine: the page's side answers with promises (`www/producer.ts`).

use js_sys::{Float32Array, Uint32Array};
use wasm_bindgen::{JsCast, JsValue, prelude::wasm_bindgen};

use crate::{
    error::{Error, Result},
    exec::LocalFuture,
    generation::callbacks::{self, Functions, Seen},
};

#[wasm_bindgen]
extern "C" {
    /// The functions of a call.
    pub type Callbacks;

    #[wasm_bindgen(method, getter)]
    fn processors(this: &Callbacks) -> u32;

    #[wasm_bindgen(method, getter)]
    fn criteria(this: &Callbacks) -> u32;

    #[wasm_bindgen(method, getter)]
    fn restricts(this: &Callbacks) -> bool;

    /// A promise of the scores.
    #[wasm_bindgen(method, catch)]
    async fn process(
        this: &Callbacks,
        index: u32,
        sequence: u32,
        ids: Uint32Array,
        scores: Float32Array,
    ) -> std::result::Result<JsValue, JsValue>;

    /// A promise of the ids.
    #[wasm_bindgen(method, catch)]
    async fn allowed(
        this: &Callbacks,
        prompt: u32,
        ids: Uint32Array,
    ) -> std::result::Result<JsValue, JsValue>;

    /// A promise of the verdict.
    #[wasm_bindgen(method, catch)]
    async fn stops(
        this: &Callbacks,
        index: u32,
        sequence: u32,
        ids: Uint32Array,
        scores: Float32Array,
    ) -> std::result::Result<JsValue, JsValue>;
}

impl callbacks::Callbacks for Callbacks {
    fn functions(&self) -> Functions {
        Functions {
            processors: self.processors() as usize,
            criteria: self.criteria() as usize,
            allowed_tokens: self.restricts(),
        }
    }

    fn process<'a>(&'a self, index: usize, seen: Seen<'a>) -> LocalFuture<'a, Result<Vec<f32>>> {
        // Copies: a view of this memory would die when it grows.
        let (ids, scores) = (seen.ids.into(), seen.scores.into());
        Box::pin(async move {
            let scores = Callbacks::process(self, index as u32, seen.sequence as u32, ids, scores);
            let scores = scores
                .await
                .map_err(|error| failed("logits_processor", &error))?;
            let scores: Float32Array = answer("logits_processor", scores)?;
            Ok(scores.to_vec())
        })
    }

    fn allowed_tokens<'a>(
        &'a self,
        prompt: usize,
        ids: &'a [u32],
    ) -> LocalFuture<'a, Result<Vec<u32>>> {
        Box::pin(async move {
            let name = "prefix_allowed_tokens_fn";
            let allowed = self.allowed(prompt as u32, ids.into()).await;
            let allowed: Uint32Array =
                answer(name, allowed.map_err(|error| failed(name, &error))?)?;
            Ok(allowed.to_vec())
        })
    }

    fn stops<'a>(&'a self, index: usize, seen: Seen<'a>) -> LocalFuture<'a, Result<bool>> {
        let (ids, scores) = (seen.ids.into(), seen.scores.into());
        Box::pin(async move {
            let verdict = Callbacks::stops(self, index as u32, seen.sequence as u32, ids, scores);
            let verdict = verdict
                .await
                .map_err(|error| failed("stopping_criteria", &error))?;
            Ok(verdict.is_truthy())
        })
    }
}

/// What the caller's function threw; the page, which knows it, shows that instead.
fn failed(name: &str, error: &JsValue) -> Error {
    let message = error.dyn_ref::<js_sys::Error>().map(js_sys::Error::message);
    let message = message.map_or_else(String::new, String::from);
    Error::option(name, format!("the function failed: {message}"))
}

fn answer<T: JsCast>(name: &str, value: JsValue) -> Result<T> {
    let wrong = |_| Error::internal(format!("the page sent no answer of {name}"));
    value.dyn_into().map_err(wrong)
}
