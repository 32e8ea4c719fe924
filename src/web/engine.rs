//! A loaded model for JavaScript.

use std::rc::Rc;

use serde_json::{Value, json};
use wasm_bindgen::prelude::wasm_bindgen;

use super::{callbacks::Callbacks, generation::Generation, json, template};
use crate::{
    error::{Error, Result},
    generation::{self, Arguments, Prompt},
};

/// A loaded model.
#[wasm_bindgen]
pub struct Engine {
    inner: generation::Engine,
    info: Value,
}

impl Engine {
    /// `info` is what the page shows about the model, an object.
    pub(super) fn new(inner: generation::Engine, info: Value) -> Self {
        Self { inner, info }
    }

    fn begin(
        &self,
        input: &str,
        config: &str,
        arguments: &str,
        assistant: Option<&Engine>,
        callbacks: Option<Callbacks>,
    ) -> Result<Generation> {
        let given = generation::Value::from(parse(arguments)?);
        let negative = given.get("negative_prompt").map(Prompt::parse_many);
        let arguments = Arguments {
            assistant: assistant.map(|engine| engine.inner.clone()),
            negative_prompts: negative.transpose()?,
            attention_mask: given
                .get("attention_mask")
                .map(Arguments::parse_mask)
                .transpose()?,
            callbacks: callbacks.map(|functions| Rc::new(functions) as _),
            profile: given.get("profile").is_some(),
        };
        let prompts = Prompt::parse_many(&parse(input)?.into())?;
        let config = parse(config)?.into();
        let generation = self.inner.generate_with(&prompts, &config, &arguments)?;
        Ok(generation.into())
    }
}

#[wasm_bindgen]
impl Engine {
    /// What was loaded and what runs it, as JSON.
    pub fn info(&self) -> String {
        self.info.to_string()
    }

    /// The model's own generation options as JSON, an object.
    pub fn generation_config(&self) -> String {
        match self.inner.generation_config().to_json() {
            Value::Null => json!({}).to_string(),
            config => config.to_string(),
        }
    }

    /// Begins a generation; input, configuration and further arguments are JSON, `callbacks` the caller's
    /// own functions.
    pub fn generate(
        &self,
        input: &str,
        config: &str,
        arguments: &str,
        callbacks: Option<Callbacks>,
    ) -> Result<Generation> {
        self.begin(input, config, arguments, None, callbacks)
    }

    /// The same with a model that drafts.
    pub fn generate_assisted(
        &self,
        input: &str,
        config: &str,
        arguments: &str,
        assistant: &Engine,
        callbacks: Option<Callbacks>,
    ) -> Result<Generation> {
        self.begin(input, config, arguments, Some(assistant), callbacks)
    }

    /// The plan of a configuration, both as JSON.
    pub fn explain(&self, config: &str) -> Result<String> {
        let plan = self.inner.explain(&parse(config)?.into())?;
        Ok(json::plan(&plan).to_string())
    }

    /// What the model has done, as JSON.
    pub fn stats(&self) -> String {
        json::stats(&self.inner.stats()).to_string()
    }

    /// The ids of a text.
    pub fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>> {
        self.inner.tokenizer().encode(text, add_special_tokens)
    }

    /// The text of ids.
    pub fn decode(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String> {
        self.inner.tokenizer().decode(ids, skip_special_tokens)
    }

    /// The prompt that the chat template makes of messages; messages and options are JSON.
    pub fn apply_chat_template(&self, messages: &str, options: &str) -> Result<String> {
        let Value::Object(options) = parse(options)? else {
            return Err(Error::option("options", "expected an object"));
        };
        let options = template::options(options)?;
        self.inner
            .tokenizer()
            .apply_chat_template(&parse(messages)?, &options)
    }

    /// The scores of the next token after each of `ids`, row after row.
    pub async fn forward(&self, ids: Vec<u32>) -> Result<Vec<f32>> {
        self.inner.forward_all(&ids).await
    }

    /// Gives the device back. Running generations end with an error.
    pub fn close(&self) {
        self.inner.close();
    }
}

/// JSON that the page's side wrote.
pub(super) fn parse(text: &str) -> Result<Value> {
    serde_json::from_str(text)
        .map_err(|error| Error::internal(format!("the page sent no JSON: {error}")))
}
