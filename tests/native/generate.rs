//! The loop: when it computes, when it ends, what it gives back. Failures B01, B04, B11, B22, B55 of
//! comparable systems, as far as they are the loop's.

use std::{cell::Cell, rc::Rc};

use decant::{
    error::ErrorKind,
    generation::{Event, StopReason},
};
use pollster::block_on;
use serde_json::{Value, json};

use crate::support::{
    fake::{Setup, only},
    loops::{PIECES, constant, counting, events, generation, output, pages_used},
};

#[test]
fn a_step_is_computed_when_it_is_pulled_and_not_before() {
    let (engine, fake) = counting(Setup::new(&PIECES));
    let mut running = generation(&engine, json!([1, 2]), json!({})).unwrap();
    assert_eq!(
        (fake.forwards(), pages_used(&engine)),
        (0, 0),
        "nothing was pulled"
    );
    for (step, token_id) in [3, 4, 5].into_iter().enumerate() {
        let event = block_on(running.next()).unwrap().unwrap();
        let text = PIECES[token_id as usize].to_owned();
        let sequence = 0;
        assert_eq!(
            event,
            Event {
                sequence,
                token_id,
                text,
                score: None
            }
        );
        assert_eq!(fake.forwards(), step + 1, "one step for one token");
        assert!(pages_used(&engine) > 0);
    }
    drop(running);
    assert_eq!((fake.forwards(), pages_used(&engine)), (3, 0));
}

#[test]
fn an_end_token_ends_the_answer_and_is_not_in_its_text() {
    let (engine, fake) = counting(Setup::new(&PIECES));
    let mut running = generation(&engine, json!([4]), json!({})).unwrap();
    let texts: Vec<_> = events(&mut running).into_iter().map(|e| e.text).collect();
    assert_eq!(texts, [" e", " f", " g", ""]);
    assert_eq!(fake.forwards(), 4, "nothing is computed after the end");
    assert_eq!(block_on(running.next()).unwrap(), None);
    let output = running.finish().unwrap();
    assert_eq!(output.sequences, [[5, 6, 7, 0]]);
    assert_eq!(output.texts, [" e f g"]);
    assert_eq!(output.stop_reasons, [StopReason::Eos]);
    assert_eq!(
        (output.usage.prompt_tokens, output.usage.completion_tokens),
        (1, 4)
    );
    assert_eq!(fake.forwards(), 4);
}

#[test]
fn the_end_token_may_be_the_first_and_may_be_token_0_or_any_other() {
    let (engine, fake) = constant(Setup::new(&PIECES), 0);
    let first = output(&engine, json!([3]), json!({}));
    assert_eq!(
        (first.texts[0].as_str(), first.stop_reasons[0]),
        ("", StopReason::Eos)
    );
    assert_eq!((first.usage.completion_tokens, fake.forwards()), (1, 1));

    // The tokenizer says <eos>, the file says more: the file wins, and the call over the file.
    let mut setup = Setup::new(&PIECES);
    setup.generation_config = json!({"eos_token_id": [1, 6]});
    let (engine, _) = counting(setup);
    let by_file = output(&engine, json!([3]), json!({}));
    assert_eq!(
        (&by_file.sequences[0][..], &*by_file.texts[0]),
        (&[4, 5, 6][..], " d e")
    );
    let by_call = output(&engine, json!([3]), json!({"eos_token_id": 5}));
    assert_eq!(by_call.sequences, [[4, 5]]);
    let without = output(
        &engine,
        json!([5]),
        json!({"eos_token_id": [], "max_new_tokens": 4}),
    );
    assert_eq!(without.sequences, [[6, 7, 0, 1]]);
    assert_eq!(without.texts, [" f g a"], "a special token is not shown");
    assert_eq!(without.stop_reasons, [StopReason::MaxNewTokens]);
}

#[test]
fn lengths_count_what_they_say() {
    let (engine, fake) = constant(Setup::new(&PIECES), 2);
    let ends = |config: Value| {
        let output = output(&engine, json!([1, 2, 3]), config);
        (output.sequences[0].len(), output.stop_reasons[0])
    };
    assert_eq!(ends(json!({})), (20, StopReason::MaxNewTokens));
    assert_eq!(
        ends(json!({"max_new_tokens": 1})),
        (1, StopReason::MaxNewTokens)
    );
    assert_eq!(ends(json!({"max_length": 7})), (4, StopReason::MaxLength));
    assert_eq!(
        ends(json!({"max_new_tokens": 500})),
        (61, StopReason::ContextFull)
    );
    assert_eq!(ends(json!({"max_length": 64})), (61, StopReason::MaxLength));
    let before = fake.forwards();
    for limit in [2, 3] {
        let call = json!({"max_length": limit});
        let error = generation(&engine, json!([1, 2, 3]), call).err().unwrap();
        let name = "max_length".to_owned();
        assert_eq!(error.kind(), &ErrorKind::InvalidOption { name });
        assert!(
            error.to_string().contains("found 3") || limit == 2,
            "{error}"
        );
    }
    assert_eq!(fake.forwards(), before);
}

/// Failure B04: a prompt at, over or near the context.
#[test]
fn a_prompt_near_the_context_gives_what_fits_and_over_it_an_error() {
    let mut setup = Setup::new(&PIECES);
    setup.facts.context_length = 8;
    setup.pages = 2;
    let (engine, fake) = constant(setup, 2);
    for config in [json!({"max_new_tokens": 4}), json!({})] {
        for (prompt, answer) in [(6, 2), (7, 1)] {
            let output = output(&engine, json!(vec![1; prompt]), config.clone());
            assert_eq!(output.sequences[0].len(), answer);
            assert_eq!(output.stop_reasons, [StopReason::ContextFull]);
            let warned = output
                .plan
                .warnings
                .iter()
                .any(|w| w.field == "max_new_tokens");
            assert_eq!(
                warned,
                config != json!({}),
                "only what the call set is warned about"
            );
        }
        let before = fake.forwards();
        for prompt in [8, 9, 100] {
            let error = generation(&engine, json!(vec![1; prompt]), config.clone())
                .err()
                .unwrap();
            assert_eq!(error.kind(), &ErrorKind::ContextFull { limit: 8 });
        }
        let empty = generation(&engine, json!([]), config.clone())
            .err()
            .unwrap();
        assert_eq!(empty.kind(), &ErrorKind::InvalidInput);
        assert_eq!(fake.forwards(), before, "an error comes before any compute");
    }
}

#[test]
fn a_long_prompt_is_read_in_chunks_and_only_its_last_token_is_scored() {
    let (engine, fake) = counting(Setup::new(&PIECES));
    let prompt: Vec<u32> = (0..19).map(|i| i % 7).collect();
    let output = output(&engine, json!(prompt), json!({"max_new_tokens": 3}));
    assert_eq!(output.sequences, [[5, 6, 7]]);
    let steps = fake.steps.borrow();
    let shapes: Vec<_> = steps
        .iter()
        .map(|(tape, step)| (*tape, step.tokens.len(), step.outputs.clone()))
        .collect();
    let expected = [
        (1, 8, vec![]),
        (1, 8, vec![]),
        (1, 3, vec![2]),
        (0, 1, vec![0]),
        (0, 1, vec![0]),
    ];
    assert_eq!(shapes, expected);
    let positions = steps
        .iter()
        .flat_map(|(_, step)| step.positions.iter().copied());
    assert!(positions.eq(0..21), "every position once, in order");
}

#[test]
fn an_id_beyond_the_tokenizer_has_no_text() {
    for rows in [8, 33, 257] {
        let mut setup = Setup::new(&PIECES[..5]);
        setup.facts.vocabulary = rows;
        let (engine, _) = constant(setup, 6);
        for sampling in [false, true] {
            let config = json!({"do_sample": sampling, "top_k": 1, "max_new_tokens": 3});
            let output = output(&engine, json!([1]), config);
            assert_eq!(
                (&output.sequences[0][..], &*output.texts[0]),
                (&[6, 6, 6][..], "")
            );
        }
    }
}

/// Failure B55: the whole prompt is in the cache already.
#[test]
fn a_prompt_that_begins_like_the_last_answer_is_evaluated_from_where_they_part() {
    let script = |ids: &[u32]| only((ids.iter().sum::<u32>() * 5 + ids.len() as u32) % 7 + 1, 8);
    let fresh = |prompt: &[u32]| {
        let (engine, _) = Setup::new(&PIECES).engine(script, Rc::default());
        output(&engine, json!(prompt), json!({"max_new_tokens": 5})).sequences
    };
    let (engine, fake) = Setup::new(&PIECES).engine(script, Rc::default());
    let prompt = [1, 2, 3, 4, 5, 6, 7];
    let cases: [(&[u32], usize); 6] = [
        (&prompt, 0),
        (&prompt, 6),
        (&prompt[..6], 5),
        (&prompt, 6),
        (&[1, 2, 3, 4, 5, 6, 7, 1], 7),
        (&[2, 2, 3], 0),
    ];
    for (prompt, cached) in cases {
        let before = fake.rows();
        let again = output(&engine, json!(prompt), json!({"max_new_tokens": 5}));
        assert_eq!(again.sequences, fresh(prompt), "{prompt:?}");
        assert_eq!(again.usage.cached_tokens, cached, "{prompt:?}");
        assert_eq!(fake.rows() - before, prompt.len() - cached + 4);
    }
    // The next turn of a chat: the last prompt and answer, and more.
    let turn = output(&engine, json!([1, 2, 3]), json!({"max_new_tokens": 4}));
    let mut next = vec![1, 2, 3];
    next.extend(&turn.sequences[0]);
    next.extend([5, 5]);
    let second = output(&engine, json!(next), json!({"max_new_tokens": 5}));
    assert_eq!(
        second.usage.cached_tokens, 6,
        "the last token of an answer is never evaluated"
    );
    assert_eq!(second.sequences, fresh(&next));
}

#[test]
fn sampling_repeats_with_its_seed_and_reports_it() {
    let script = |ids: &[u32]| {
        (0..8)
            .map(|id| ((id * 7 + ids.len()) % 5) as f32 / 2.0)
            .collect()
    };
    let (engine, _) = Setup::new(&PIECES).engine(script, Rc::default());
    let drawn = |config: Value| output(&engine, json!([1]), config);
    let config = |seed: Value| json!({"do_sample": true, "seed": seed, "max_new_tokens": 40});
    let first = drawn(config(json!(0)));
    assert_eq!(first.sequences, drawn(config(json!(0))).sequences);
    assert_ne!(first.sequences, drawn(config(json!(1))).sequences);
    let free = drawn(config(json!(null)));
    let seed = free.plan.setting("seed").unwrap().value.to_json();
    assert_eq!(free.sequences, drawn(config(seed)).sequences);
    // A plan that is only explained has no seed yet.
    let plan = engine.explain(&json!({"do_sample": true}).into()).unwrap();
    assert_eq!(plan.setting("seed").unwrap().value.to_json(), json!(null));
}

#[test]
fn processors_see_prompt_and_answer() {
    // Every token scores the same but for a slope, so a penalty on what was seen walks through all.
    let script = |_: &[u32]| (0..8).map(|id| 10.0 - id as f32 * 0.1).collect();
    let (engine, _) = Setup::new(&PIECES).engine(script, Rc::default());
    let config = json!({"repetition_penalty": 2.0, "eos_token_id": [], "max_new_tokens": 5});
    let output = output(&engine, json!([0, 3]), config);
    assert_eq!(output.sequences, [[1, 2, 4, 5, 6]]);
}

#[test]
fn max_time_ends_after_the_token_that_exceeds_it() {
    let time = Rc::new(Cell::new(100.0));
    let clock = time.clone();
    let script = move |_: &[u32]| {
        clock.set(clock.get() + 0.5);
        only(2, 8)
    };
    let (engine, fake) = Setup::new(&PIECES).engine(script, time.clone());
    let mut running = generation(&engine, json!([1]), json!({"max_time": 1.2})).unwrap();
    // Time counts from the first pull, not from the call.
    time.set(1000.0);
    let output = block_on(running.output()).unwrap();
    assert_eq!((output.sequences[0].len(), fake.forwards()), (3, 3));
    assert_eq!(output.stop_reasons, [StopReason::MaxTime]);
}

#[test]
fn scores_of_all_positions() {
    let (engine, fake) = counting(Setup::new(&PIECES));
    let prompt: Vec<u32> = (0..19).map(|i| i % 7).collect();
    let logits = block_on(engine.forward_all(&prompt)).unwrap();
    let expected: Vec<f32> = prompt.iter().flat_map(|&id| only(id + 1, 8)).collect();
    assert_eq!(logits, expected);
    assert_eq!(fake.rows(), 19);
    assert_eq!(pages_used(&engine), 0);
    let refused = |ids: &[u32]| block_on(engine.forward_all(ids)).unwrap_err();
    assert_eq!(refused(&[]).kind(), &ErrorKind::InvalidInput);
    assert!(
        refused(&[1, 8])
            .to_string()
            .contains("token id 1 of the prompt is 8")
    );
    assert_eq!(
        refused(&[1; 65]).kind(),
        &ErrorKind::ContextFull { limit: 64 }
    );
    assert_eq!(
        block_on(engine.forward_all(&[1; 64])).unwrap().len(),
        64 * 8
    );
}
