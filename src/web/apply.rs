//! A chain of processors on one row of scores, for JavaScript.

use serde_json::{Map, Value, json};
use wasm_bindgen::prelude::wasm_bindgen;

use super::engine::parse;
use crate::{
    error::Result,
    generation::{self, Row},
};

/// What a chain did.
#[wasm_bindgen]
pub struct Applied {
    steps: Vec<generation::Applied>,
}

#[wasm_bindgen]
impl Applied {
    /// Runs the chain of `config`, JSON, on `scores`. `ids` are prompt and answer so far, the first
    /// `prompt_length` of them the prompt; guidance needs `unconditional` scores.
    #[wasm_bindgen(constructor)]
    pub fn new(
        scores: &[f32],
        ids: &[u32],
        prompt_length: usize,
        unconditional: Option<Vec<f32>>,
        config: &str,
    ) -> Result<Applied> {
        let row = Row {
            ids,
            prompt_length,
            unconditional: unconditional.as_deref(),
            ..Row::default()
        };
        let steps = generation::apply_processors(scores, row, &parse(config)?.into())?;
        Ok(Self { steps })
    }

    /// The stages in order, as JSON.
    pub fn steps(&self) -> String {
        let steps = self.steps.iter().map(|step| {
            let args = step.args.iter();
            let args: Map<_, _> = args
                .map(|(name, value)| ((*name).to_owned(), value.to_json()))
                .collect();
            json!({ "name": step.name, "args": args, "kept": step.kept })
        });
        steps.collect::<Value>().to_string()
    }

    /// The scores after stage `index`.
    pub fn scores(&self, index: usize) -> Vec<f32> {
        let step = self.steps.get(index);
        step.map_or_else(Vec::new, |step| step.scores.clone())
    }
}
