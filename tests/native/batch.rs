//! Many sequences in one call: ragged rows, different ends, equal to single calls. Failures B23, B51.

use std::rc::Rc;

use decant::generation::{Engine, StopReason};
use pollster::block_on;
use serde_json::{Value, json};

use crate::support::fake::{Fake, Setup, only, tape};

const PIECES: [&str; 8] = ["<eos>", " a", " b", " c", " d", " e", " f", " g"];

/// What follows depends on the whole history; every history of 11 tokens ends.
fn engine(change: impl FnOnce(&mut Setup)) -> (Engine, Rc<Fake>) {
    let mut setup = Setup::new(&PIECES);
    change(&mut setup);
    let next = |ids: &[u32]| match ids.len() {
        11 => only(0, 8),
        length => only((ids.iter().sum::<u32>() * 3 + length as u32) % 7 + 1, 8),
    };
    setup.engine(next, Rc::default())
}

fn prompts() -> Vec<Vec<u32>> {
    vec![
        vec![5, 6],
        vec![7, 1, 2, 3, 4],
        vec![2],
        (1..=7).chain([3, 5]).collect(),
        vec![4, 4, 4],
    ]
}

/// What may differ about an engine without making a difference.
fn shapes() -> [fn(&mut Setup); 7] {
    [
        |_| {},
        |s| s.sequences = 2,
        |s| s.tapes = vec![tape(1, 1)],
        |s| s.tapes = vec![tape(8, 1)],
        |s| s.tapes = vec![tape(3, 2), tape(32, 8)],
        |s| s.page_size = 1,
        |s| s.page_size = 64,
    ]
}

#[test]
fn every_row_is_as_if_it_were_alone() {
    for shape in shapes() {
        let (engine, fake) = engine(|setup| {
            setup.pages = 64;
            shape(setup);
        });
        let config = json!({"max_new_tokens": 8});
        let run = |input: Value| {
            let running = engine.generate(&input.into(), &config.clone().into());
            block_on(running.unwrap().output()).unwrap()
        };
        let together = run(json!(prompts()));
        for (row, prompt) in prompts().into_iter().enumerate() {
            let alone = run(json!(prompt));
            assert_eq!(together.sequences[row], alone.sequences[0], "row {row}");
            assert_eq!(together.texts[row], alone.texts[0]);
            assert_eq!(together.stop_reasons[row], alone.stop_reasons[0]);
        }
        let (eos, length) = (StopReason::Eos, StopReason::MaxNewTokens);
        assert_eq!(together.stop_reasons, [length, eos, length, eos, length]);
        assert_eq!(together.usage.prompt_tokens, 20);
        assert_eq!(engine.stats().cache_bytes_used, 0);
        assert!(fake.forwards() > 0);
    }
}

#[test]
fn rows_share_steps_and_a_finished_row_takes_none() {
    let (engine, fake) = engine(|setup| setup.pages = 64);
    let mut running = engine
        .generate(
            &json!([[1, 2], [1, 2, 3, 4, 5, 6, 7, 1, 2]]).into(),
            &json!({}).into(),
        )
        .unwrap();
    // 11 rows of prompts take two steps; after the first, the first row is ready.
    let first = block_on(running.next()).unwrap().unwrap();
    assert_eq!((first.sequence, fake.forwards()), (0, 1));
    let output = block_on(running.output()).unwrap();
    assert_eq!(output.stop_reasons, [StopReason::Eos; 2]);
    assert_eq!(
        output.sequences.iter().map(Vec::len).collect::<Vec<_>>(),
        [10, 3]
    );
    let rows: Vec<usize> = fake
        .steps
        .borrow()
        .iter()
        .map(|(_, s)| s.tokens.len())
        .collect();
    assert_eq!(rows, [8, 4, 2, 2, 1, 1, 1, 1, 1, 1], "rows of each step");
}

#[test]
fn events_say_whose_they_are_and_join_to_the_texts() {
    let (engine, _) = engine(|setup| setup.pages = 64);
    let config = json!({"stop_strings": " b c", "max_new_tokens": 9});
    let mut running = engine
        .generate(&json!(prompts()).into(), &config.into())
        .unwrap();
    let mut texts = vec![String::new(); 5];
    let mut ids = vec![Vec::new(); 5];
    while let Some(event) = block_on(running.next()).unwrap() {
        texts[event.sequence].push_str(&event.text);
        ids[event.sequence].push(event.token_id);
    }
    let output = running.finish().unwrap();
    assert_eq!(texts, output.texts);
    assert_eq!(ids, output.sequences);
}

#[test]
fn stopping_a_batch_ends_all_rows_that_run() {
    let (engine, _) = engine(|setup| setup.pages = 64);
    let input = json!([vec![1; 9], vec![1, 2]]);
    let mut running = engine.generate(&input.into(), &json!({}).into()).unwrap();
    while block_on(running.next()).unwrap().unwrap().token_id != 0 {}
    let output = running.finish().unwrap();
    assert_eq!(output.stop_reasons, [StopReason::Eos, StopReason::Aborted]);
    assert_eq!(engine.stats().cache_bytes_used, 0);
    assert_eq!(engine.stats().truncation_rate, Some(0.0));
}

#[test]
fn an_error_names_the_prompt_it_is_in() {
    let (engine, fake) = engine(|_| {});
    let refused = |input: Value| {
        let error = engine
            .generate(&input.into(), &json!({}).into())
            .err()
            .unwrap();
        error.to_string()
    };
    assert!(refused(json!([[1], [2, 8]])).starts_with("prompt 1: token id 1 of the prompt is 8"));
    assert!(refused(json!([[1], []])).starts_with("prompt 1: the prompt is empty"));
    assert!(
        refused(json!([vec![1; 3], vec![1; 64]])).starts_with("prompt 1: the prompt has 64 tokens")
    );
    assert!(refused(json!([[1], "a", 5])).starts_with("prompt 2: the prompt is 5"));
    assert_eq!(fake.forwards(), 0);
}
