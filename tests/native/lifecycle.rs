//! The life of a call: stopping, failing, being dropped, running beside others. Failures B10 and B65 of
//! comparable systems.

use std::{
    cell::Cell,
    future::Future,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use decant::{
    error::{Error, ErrorKind},
    generation::{Pull, StopReason},
};
use pollster::block_on;
use serde_json::{Value, json};

use crate::support::{
    fake::{Setup, only},
    loops::{PIECES, constant, counting, generation, output, pages_used},
};

#[test]
fn scores_without_a_distribution_end_the_call_and_not_the_engine() {
    for bad in [f32::NAN, f32::INFINITY] {
        let broken = Rc::new(Cell::new(true));
        let switch = broken.clone();
        let script = move |ids: &[u32]| match switch.get() && ids.len() == 3 {
            true => vec![0.0, 1.0, bad, 0.0, 0.0, 0.0, 0.0, 0.0],
            false => only(2, 8),
        };
        let (engine, fake) = Setup::new(&PIECES).engine(script, Rc::default());
        for sampling in [false, true] {
            broken.set(true);
            let config = json!({"do_sample": sampling, "top_k": 1, "max_new_tokens": 4});
            let mut running = generation(&engine, json!([1]), config.clone()).unwrap();
            assert!(block_on(running.next()).unwrap().is_some());
            assert!(block_on(running.next()).unwrap().is_some());
            let error = block_on(running.next()).unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::InvalidScores);
            assert_eq!(
                block_on(running.next()).unwrap(),
                None,
                "an error is given once"
            );
            assert_eq!(running.finish().unwrap_err(), error);
            assert_eq!(pages_used(&engine), 0);
            broken.set(false);
            let before = fake.rows();
            let next = output(&engine, json!([1]), config);
            assert_eq!(next.sequences, [[2, 2, 2, 2]]);
            // Nothing of the failed call is trusted: the prompt is evaluated again.
            assert_eq!(fake.rows() - before, 4);
        }
    }
}

#[test]
fn a_failing_device_is_reported_once() {
    let (engine, fake) = counting(Setup::new(&PIECES));
    fake.failing.set(Some(2));
    let mut running = generation(&engine, json!([1]), json!({})).unwrap();
    assert!(block_on(running.next()).unwrap().is_some());
    assert!(block_on(running.next()).unwrap().is_some());
    let error = block_on(running.next()).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::DeviceLost);
    assert_eq!(block_on(running.output()).unwrap_err(), error);
    assert_eq!(fake.forwards(), 3);
    let stats = engine.stats();
    assert_eq!(
        (stats.generations, stats.failures, stats.cache_bytes_used),
        (1, 1, 0)
    );
}

/// Failure B65: an abort is of one call only.
#[test]
fn stopping_ends_one_call_and_keeps_what_it_made() {
    let (engine, fake) = counting(Setup::new(&PIECES));
    let whole = || output(&engine, json!([1]), json!({})).texts[0].clone();
    let expected = " b c d e f g";
    for after in [0, 1, 3] {
        let mut running = generation(&engine, json!([1]), json!({})).unwrap();
        for _ in 0..after {
            block_on(running.next()).unwrap().unwrap();
        }
        let before = fake.forwards();
        running.stop_handle().stop();
        assert_eq!(block_on(running.next()).unwrap(), None);
        assert_eq!(block_on(running.next()).unwrap(), None);
        let output = running.finish().unwrap();
        assert_eq!(output.stop_reasons, [StopReason::Aborted]);
        assert_eq!(output.texts[0], expected[..2 * after]);
        assert_eq!((fake.forwards(), pages_used(&engine)), (before, 0));
        assert_eq!(whole(), expected);
    }
    let mut ended = generation(&engine, json!([1]), json!({})).unwrap();
    while block_on(ended.next()).unwrap().is_some() {}
    ended.stop_handle().stop();
    assert_eq!(ended.finish().unwrap().stop_reasons, [StopReason::Eos]);
    assert_eq!(whole(), expected);
}

fn poll<F: Future>(future: &mut std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_stop_while_a_step_is_computed_shows_nothing_of_it() {
    let (engine, fake) = counting(Setup::new(&PIECES));
    fake.delay.set(2);
    let mut running = generation(&engine, json!([1]), json!({})).unwrap();
    let stop = running.stop_handle();
    block_on(running.next()).unwrap().unwrap();
    {
        let mut pending = std::pin::pin!(running.next());
        assert!(poll(&mut pending).is_pending());
        stop.stop();
        assert!(poll(&mut pending).is_pending());
        assert_eq!(poll(&mut pending), Poll::Ready(Ok(None)));
    }
    let output = running.finish().unwrap();
    assert_eq!(output.sequences, [[2]]);
    assert_eq!((fake.forwards(), pages_used(&engine)), (2, 0));
}

#[test]
fn a_pull_that_is_dropped_half_way_can_be_pulled_again() {
    let (engine, fake) = counting(Setup::new(&PIECES));
    fake.delay.set(1);
    let mut running = generation(&engine, json!([1, 2]), json!({})).unwrap();
    let mut tokens = Vec::new();
    for _ in 0..3 {
        {
            let mut pending = std::pin::pin!(running.next());
            assert!(poll(&mut pending).is_pending());
        }
        tokens.push(block_on(running.next()).unwrap().unwrap().token_id);
    }
    assert_eq!(tokens, [3, 4, 5]);
    assert_eq!(running.finish().unwrap().usage.completion_tokens, 3);
}

#[test]
fn two_generations_interleaved_do_not_disturb_each_other() {
    // What is said depends on the whole history, so that a foreign page would be noticed.
    let script = |ids: &[u32]| only((ids.iter().sum::<u32>() * 3 + ids.len() as u32) % 7 + 1, 8);
    let (engine, fake) = Setup::new(&PIECES).engine(script, Rc::default());
    let config = json!({"max_new_tokens": 12});
    let alone = |prompt: Value| output(&engine, prompt, config.clone()).sequences;
    let expected = [alone(json!([1, 2, 3, 4, 5])), alone(json!([7, 6, 5]))];

    fake.delay.set(1);
    let mut first = generation(&engine, json!([1, 2, 3, 4, 5]), config.clone()).unwrap();
    let mut second = generation(&engine, json!([7, 6, 5]), config.clone()).unwrap();
    for _ in 0..12 {
        // Both steps are in flight before either's scores come.
        let mut one = std::pin::pin!(first.next());
        let mut two = std::pin::pin!(second.next());
        assert!(poll(&mut one).is_pending() && poll(&mut two).is_pending());
        assert!(matches!(poll(&mut two), Poll::Ready(Ok(Some(_)))));
        assert!(matches!(poll(&mut one), Poll::Ready(Ok(Some(_)))));
    }
    let found = [
        first.finish().unwrap().sequences,
        second.finish().unwrap().sequences,
    ];
    assert_eq!(found, expected);
}

#[test]
fn room_is_taken_at_the_first_pull_or_refused_there() {
    let (engine, fake) = constant(Setup::new(&PIECES), 2);
    let half = json!({"max_new_tokens": 31});
    let mut first = generation(&engine, json!([1, 2]), half.clone()).unwrap();
    let mut second = generation(&engine, json!([1, 2]), json!({"max_new_tokens": 40})).unwrap();
    block_on(first.next()).unwrap();
    let before = fake.forwards();
    let error = block_on(second.next()).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::ContextFull { limit: 32 });
    assert_eq!(fake.forwards(), before);
    let third = block_on(generation(&engine, json!([1, 2]), half).unwrap().output());
    assert_eq!(third.unwrap().sequences[0].len(), 31);
    assert_eq!(block_on(first.output()).unwrap().sequences[0].len(), 31);
    assert_eq!(pages_used(&engine), 0);
}

#[test]
fn a_closed_engine_says_so() {
    let (engine, _) = counting(Setup::new(&PIECES));
    let mut running = generation(&engine, json!([1]), json!({})).unwrap();
    block_on(running.next()).unwrap();
    engine.close();
    engine.close();
    let closed = |error: Error| assert_eq!(error.kind(), &ErrorKind::Closed);
    closed(block_on(running.next()).unwrap_err());
    closed(generation(&engine, json!([1]), json!({})).err().unwrap());
    closed(block_on(engine.forward_all(&[1])).unwrap_err());
    closed(engine.executor_info().unwrap_err());
}

#[test]
fn thousands_of_calls_leave_nothing_behind() {
    let (engine, fake) = counting(Setup::new(&PIECES));
    for i in 0..3000u32 {
        let mut running = generation(&engine, json!([1 + i % 6, 2]), json!({})).unwrap();
        for _ in 0..i % 4 {
            block_on(running.next()).unwrap();
        }
        if i % 3 == 0 {
            running.finish().unwrap();
        }
        fake.steps.borrow_mut().clear();
    }
    assert_eq!(pages_used(&engine), 0);
    // All pages can be had again.
    let all = output(
        &engine,
        json!([2, 2]),
        json!({"max_new_tokens": 62, "eos_token_id": []}),
    );
    assert_eq!(all.sequences[0].len(), 62);
}

/// A caller with something else to do has its turn after each step, also where no token comes of it.
#[test]
fn a_pull_computes_at_most_one_step() {
    let (engine, fake) = counting(Setup::new(&PIECES));
    let prompt: Vec<u32> = (0..19).map(|i| i % 7).collect();
    let config = json!({"max_new_tokens": 2, "num_beams": 2});
    let mut running = generation(&engine, json!(prompt), config).unwrap();
    let mut pulled = Vec::new();
    loop {
        let before = fake.forwards();
        let pull = block_on(running.pull()).unwrap();
        assert!(fake.forwards() <= before + 1);
        match pull {
            Pull::Token(event) => pulled.push(Some(event.token_id)),
            Pull::Nothing => pulled.push(None),
            Pull::End => break,
        }
    }
    // Three steps read the prompt, the last of them and one more choose, and then the answer is final.
    assert_eq!(pulled, [None, None, None, Some(5), Some(6)]);
}
