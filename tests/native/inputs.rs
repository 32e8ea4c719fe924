//! Prompts: text, conversations and ids; what is refused. Also what a call and an engine count.

use std::{cell::Cell, rc::Rc};

use decant::{
    error::ErrorKind,
    generation::{Engine, Prompt, StopReason, Value as Plain},
};
use pollster::block_on;
use serde_json::{Value, json};

use crate::support::fake::{Setup, only, tokenizer};

const PIECES: [&str; 9] = [
    "<bos>", "<eos>", "<|user|>", "<|bot|>", "hi", "ho", "\n", "x", "y",
];
const TEMPLATE: &str = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if not loop.last %}{{ '\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '\n' }}<|bot|>{% endif %}";

fn engine() -> Engine {
    let mut setup = Setup::new(&PIECES);
    setup.tokenizer = tokenizer(
        &PIECES,
        Some(&TEMPLATE.replace("m.role", "'user' if m.role == 'user' else 'bot'")),
    );
    setup.facts.bos_token_id = Some(0);
    setup.engine(|_| only(7, 9), Rc::default()).0
}

/// The ids that a prompt becomes: the history that the model sees before its first token.
fn evaluated(input: Value, config: Value) -> Vec<u32> {
    let seen = Rc::new(Cell::default());
    let first = seen.clone();
    let mut setup = Setup::new(&PIECES);
    setup.tokenizer = engine().tokenizer().clone();
    setup.facts.bos_token_id = Some(0);
    let script = move |ids: &[u32]| {
        first.set(ids.to_vec());
        only(1, 9)
    };
    let (engine, _) = setup.engine(script, Rc::default());
    let running = engine.generate(&input.into(), &config.into());
    block_on(running.unwrap().output()).unwrap();
    seen.take()
}

fn refused(input: impl Into<Plain>) -> String {
    let error = engine()
        .generate(&input.into(), &json!({}).into())
        .err()
        .unwrap();
    assert_eq!(error.kind(), &ErrorKind::InvalidInput);
    error.to_string()
}

#[test]
fn text_messages_and_ids_become_ids() {
    assert_eq!(evaluated(json!("hi"), json!({})), [4]);
    assert_eq!(evaluated(json!("<|user|>hi"), json!({})), [2, 4]);
    assert_eq!(evaluated(json!([5, 8]), json!({})), [5, 8]);
    let chat = json!([{"role": "user", "content": "hi"}]);
    assert_eq!(evaluated(chat, json!({})), [2, 4, 6, 3]);
    let open = json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]);
    assert_eq!(
        evaluated(open, json!({})),
        [2, 4, 6, 3, 5],
        "the answer goes on with the last message"
    );
}

#[test]
fn an_input_is_one_prompt_or_a_list_of_them() {
    let parse = |input: Value| Prompt::parse_many(&input.into()).unwrap();
    let text = |text: &str| Prompt::Text(text.into());
    assert_eq!(parse(json!("a")), [text("a")]);
    assert_eq!(parse(json!([1, 2])), [Prompt::Ids(vec![1, 2])]);
    assert_eq!(parse(json!(["a", "b"])), [text("a"), text("b")]);
    assert_eq!(parse(json!(["a", [1]])), [text("a"), Prompt::Ids(vec![1])]);
    let messages = json!([{"role": "user", "content": "a"}]);
    assert_eq!(parse(messages.clone()), [Prompt::Chat(messages.clone())]);
    assert_eq!(parse(json!([messages, messages])).len(), 2);
}

#[test]
fn what_is_no_prompt_is_refused_by_what_was_found() {
    let expected = [
        (
            json!([4, 9]),
            "token id 1 of the prompt is 9, allowed: ids below 9",
        ),
        (
            json!([4, 4_294_967_296u64]),
            "token id 1 of the prompt is 4294967296, allowed: an integer",
        ),
        (
            json!([4, -1]),
            "token id 1 of the prompt is -1, allowed: an integer",
        ),
        (json!([4, 1.5]), "token id 1 of the prompt is 1.5"),
        (
            json!([4, "a"]),
            "token id 1 of the prompt is the text \"a\"",
        ),
        (json!([null]), "token id 0 of the prompt is null"),
        (
            json!([{"role": "user"}, 5]),
            "message 1 of the conversation is 5",
        ),
        (
            json!(5),
            "the prompt is 5, allowed: a text, a list of messages",
        ),
        (json!(null), "the prompt is null"),
        (json!({}), "the prompt is an object"),
        (json!([[[1]]]), "token id 0 of the prompt is [1]"),
    ];
    for (input, message) in expected {
        let found = refused(input);
        assert!(found.contains(message), "{found}");
    }
    let nan = Plain::List(vec![Plain::Number(f64::NAN)]);
    assert!(refused(nan).contains("token id 0 of the prompt is NaN"));
    assert_eq!(
        engine()
            .generate_prompts(&[], &json!({}).into())
            .err()
            .unwrap()
            .kind(),
        &ErrorKind::InvalidInput
    );
}

/// Failure B04 also asks what an empty prompt means: an error, unless the call says where to begin.
#[test]
fn an_empty_prompt_begins_only_where_the_call_says() {
    for empty in [json!(""), json!([])] {
        assert!(refused(empty.clone()).contains("pass bos_token_id"));
        assert_eq!(evaluated(empty.clone(), json!({"bos_token_id": 0})), [0]);
        assert_eq!(evaluated(empty, json!({"bos_token_id": 8})), [8]);
    }
    assert_eq!(evaluated(json!("hi"), json!({"bos_token_id": 8})), [4]);
}

#[test]
fn calls_and_engines_count_what_they_do() {
    let time = Rc::new(Cell::new(0.0));
    let clock = time.clone();
    // A step takes 10 ms for each token before it.
    let script = move |ids: &[u32]| {
        clock.set(clock.get() + 0.01 * ids.len() as f64);
        only(7, 9)
    };
    let (engine, _) = Setup::new(&PIECES).engine(script, time.clone());
    let config = json!({"max_new_tokens": 4});
    let mut running = engine
        .generate(&json!([4, 4]).into(), &config.clone().into())
        .unwrap();
    while block_on(running.next()).unwrap().is_some() {
        // The consumer's own time does not count.
        time.set(time.get() + 100.0);
    }
    let output = running.finish().unwrap();
    let near = |found: Option<f64>, expected: f64| {
        assert!(
            (found.unwrap() - expected).abs() < 1e-6,
            "{found:?}, expected {expected}"
        );
    };
    let timings = &output.timings;
    near(timings.time_to_first_token_ms, 20.0);
    near(Some(timings.prefill_ms), 20.0);
    near(Some(timings.decode_ms), 120.0);
    near(timings.prefill_tokens_per_second(), 100.0);
    near(timings.decode_tokens_per_second(), 25.0);
    assert_eq!((timings.prefill_tokens, timings.decode_tokens), (2, 3));
    assert_eq!(
        (timings.forwards, timings.dispatches, timings.submits),
        (4, 40, 4)
    );
    assert_eq!(timings.bytes_read, 4 * 9 * 4);

    let before = engine.stats();
    assert_eq!((before.generations, before.truncation_rate), (1, Some(1.0)));
    let ending = json!({"max_new_tokens": 4, "eos_token_id": 7});
    block_on(
        engine
            .generate(&json!([5]).into(), &ending.into())
            .unwrap()
            .output(),
    )
    .unwrap();
    let mut aborted = engine.generate(&json!([6]).into(), &config.into()).unwrap();
    block_on(aborted.next()).unwrap();
    let while_running = engine.stats();
    drop(aborted);
    let stats = engine.stats();
    assert_eq!((stats.generations, stats.failures), (3, 0));
    near(stats.truncation_rate, 1.0 / 3.0);
    let reasons = [
        (StopReason::Eos, 1),
        (StopReason::MaxNewTokens, 1),
        (StopReason::Aborted, 1),
    ];
    assert_eq!(stats.stop_reasons, reasons);
    assert_eq!(
        (stats.usage.prompt_tokens, stats.usage.completion_tokens),
        (4, 6)
    );
    near(stats.prefill_tokens_per_second, 4.0 / 0.04);
    near(stats.decode_tokens_per_second, 25.0);
    near(stats.time_to_first_token_ms, 10.0);
    near(stats.mean_time_to_first_token_ms, 40.0 / 3.0);
    // One layer, one head of one value, keys and values of 4 bytes: 32 bytes for a page of 4.
    assert_eq!(stats.cache_bytes_reserved, 16 * 32);
    assert_eq!(
        (while_running.cache_bytes_used, stats.cache_bytes_used),
        (32, 0)
    );
    assert_eq!(stats.cache_bytes_retained, 32);
}

#[test]
fn nothing_measured_is_no_rate() {
    let stats = engine().stats();
    assert_eq!((stats.generations, stats.truncation_rate), (0, None));
    assert_eq!(
        (
            stats.prefill_tokens_per_second,
            stats.time_to_first_token_ms
        ),
        (None, None)
    );
    let untouched = engine();
    drop(
        untouched
            .generate(&json!([4]).into(), &json!({}).into())
            .unwrap(),
    );
    assert_eq!(
        untouched.stats().generations,
        0,
        "a call that was never pulled did nothing"
    );
}
