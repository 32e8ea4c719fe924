//! Models of a few words, and calls on them.

use std::rc::Rc;

use decant::{
    error::Error,
    generation::{Arguments, Engine, Event, Generation, Output, Prompt, Strategy},
};
use pollster::block_on;
use serde_json::Value;

use super::fake::{Fake, Setup, only};

/// A vocabulary.
pub const PIECES: [&str; 8] = ["<eos>", " a", " b", " c", " d", " e", " f", " g"];

/// A model that counts: after token i comes i + 1, and after the last the end token.
pub fn counting(setup: Setup) -> (Engine, Rc<Fake>) {
    let vocabulary = setup.facts.vocabulary;
    let next = move |ids: &[u32]| only((ids[ids.len() - 1] + 1) % vocabulary as u32, vocabulary);
    setup.engine(next, Rc::default())
}

/// A model that always says the same.
pub fn constant(setup: Setup, token: u32) -> (Engine, Rc<Fake>) {
    let vocabulary = setup.facts.vocabulary;
    setup.engine(move |_| only(token, vocabulary), Rc::default())
}

/// A call that was not pulled.
pub fn generation(engine: &Engine, input: Value, config: Value) -> Result<Generation, Error> {
    engine.generate(&input.into(), &config.into())
}

/// The output of a call.
pub fn output(engine: &Engine, input: Value, config: Value) -> Output {
    block_on(generation(engine, input, config).unwrap().output()).unwrap()
}

/// The rest of a call's events.
pub fn events(generation: &mut Generation) -> Vec<Event> {
    let next = || block_on(generation.next()).unwrap();
    std::iter::from_fn(next).collect()
}

/// Bytes of the cache that running calls hold.
pub fn pages_used(engine: &Engine) -> u64 {
    engine.stats().cache_bytes_used
}

/// The output of a call that another model drafts for.
pub fn assisted(
    engine: &Engine,
    assistant: &Engine,
    prompt: &[u32],
    config: &decant::generation::Value,
) -> Output {
    let arguments = Arguments {
        assistant: Some(assistant.clone()),
        ..Arguments::default()
    };
    let prompts = [Prompt::Ids(prompt.to_vec())];
    let mut running = engine.generate_with(&prompts, config, &arguments).unwrap();
    assert_eq!(running.plan().strategy, Strategy::Assisted);
    block_on(running.output()).unwrap()
}

/// `config` with `more` in it.
pub fn with(config: &Value, more: Value) -> Value {
    let mut config = config.clone();
    let more = more.as_object().unwrap().clone();
    config.as_object_mut().unwrap().extend(more);
    config
}
