//! The caller's own functions: what they see, what they change, and how their mistakes end.

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    pin::pin,
    rc::Rc,
    task::{Context as Waiting, Poll, Waker},
};

use decant::{
    error::{Error, ErrorKind, Result},
    exec::LocalFuture,
    generation::{
        Arguments, Engine, Generation, Output, Prompt, StopReason,
        callbacks::{Callbacks, Functions, Seen},
    },
};
use pollster::block_on;
use serde_json::json;

use crate::support::fake::{Setup, only};

type Process = Box<dyn Fn(usize, Seen) -> Result<Vec<f32>>>;
pub type Allowed = Box<dyn Fn(usize, &[u32]) -> Vec<u32>>;
type Stops = Box<dyn Fn(usize, Seen) -> bool>;

/// Functions of a test. Each answers only when it is polled a second time.
#[derive(Default)]
pub struct Mine {
    processors: usize,
    criteria: usize,
    process: Option<Process>,
    allowed: Option<Allowed>,
    stops: Option<Stops>,
    /// What was asked, in order.
    asked: RefCell<Vec<String>>,
}

impl Mine {
    /// A function that restricts tokens, alone.
    pub fn allowing(allowed: Allowed) -> Self {
        Self {
            allowed: Some(allowed),
            ..Self::default()
        }
    }

    fn later<'a, T: 'a>(
        &'a self,
        what: String,
        value: impl FnOnce() -> T + 'a,
    ) -> LocalFuture<'a, T> {
        let (mut first, mut value) = (true, Some(value));
        Box::pin(poll_fn(move |waiting| {
            if std::mem::take(&mut first) {
                waiting.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.asked.borrow_mut().push(what.clone());
            Poll::Ready(value.take().unwrap()())
        }))
    }
}

impl Callbacks for Mine {
    fn functions(&self) -> Functions {
        Functions {
            processors: self.processors,
            criteria: self.criteria,
            allowed_tokens: self.allowed.is_some(),
        }
    }

    fn process<'a>(&'a self, index: usize, seen: Seen<'a>) -> LocalFuture<'a, Result<Vec<f32>>> {
        self.later(format!("process {index} {:?}", seen.ids), move || {
            self.process.as_ref().unwrap()(index, seen)
        })
    }

    fn allowed_tokens<'a>(
        &'a self,
        prompt: usize,
        ids: &'a [u32],
    ) -> LocalFuture<'a, Result<Vec<u32>>> {
        self.later(format!("allowed {prompt} {ids:?}"), move || {
            Ok(self.allowed.as_ref().unwrap()(prompt, ids))
        })
    }

    fn stops<'a>(&'a self, index: usize, seen: Seen<'a>) -> LocalFuture<'a, Result<bool>> {
        self.later(format!("stops {index} {:?}", seen.ids), move || {
            Ok(self.stops.as_ref().unwrap()(index, seen))
        })
    }
}

/// An engine of ids 0 to 6 and the end 7 that counts upwards: after `i` comes `i + 1`.
fn counting() -> Engine {
    let setup = Setup::new(&["a", "b", "c", "d", "e", "f", "g", "<eos>"]);
    let next = |ids: &[u32]| only((ids.last().unwrap() + 1).min(7), 8);
    setup.engine(next, Rc::new(Cell::new(0.0))).0
}

fn begin(
    engine: &Engine,
    mine: &Rc<Mine>,
    prompts: &[&[u32]],
    config: serde_json::Value,
) -> Generation {
    let prompts: Vec<_> = prompts
        .iter()
        .map(|ids| Prompt::Ids(ids.to_vec()))
        .collect();
    let arguments = Arguments {
        callbacks: Some(mine.clone()),
        ..Arguments::default()
    };
    engine
        .generate_with(&prompts, &config.into(), &arguments)
        .unwrap()
}

pub fn answer(
    engine: &Engine,
    mine: &Rc<Mine>,
    prompts: &[&[u32]],
    config: serde_json::Value,
) -> Result<Output> {
    block_on(begin(engine, mine, prompts, config).output())
}

/// Favours `id` above all.
fn favour(id: usize) -> Process {
    Box::new(move |_, seen| {
        let mut scores = seen.scores.to_vec();
        scores[id] = 100.0;
        Ok(scores)
    })
}

#[test]
fn a_processor_changes_scores_and_sees_every_sequence() {
    let engine = counting();
    let mine = Rc::new(Mine {
        processors: 1,
        process: Some(favour(3)),
        ..Mine::default()
    });
    let output = answer(
        &engine,
        &mine,
        &[&[0], &[1, 2]],
        json!({"max_new_tokens": 2}),
    )
    .unwrap();
    assert_eq!(output.sequences, [[3, 3], [3, 3]]);
    let asked = mine.asked.borrow();
    let expected = [
        "process 0 [0]",
        "process 0 [1, 2]",
        "process 0 [0, 3]",
        "process 0 [1, 2, 3]",
    ];
    assert_eq!(*asked, expected);
    // It runs beside what the configuration asks for, after penalties and before temperature.
    let config =
        json!({"do_sample": true, "temperature": 0.5, "suppress_tokens": [1], "max_new_tokens": 1});
    let plan = begin(&engine, &mine, &[&[0]], config).plan().clone();
    let names: Vec<_> = plan.processors.iter().map(|stage| stage.name()).collect();
    assert_eq!(
        names,
        [
            "suppress_tokens",
            "logits_processor",
            "temperature",
            "top_k"
        ]
    );
}

#[test]
fn several_processors_run_in_order_each_on_what_the_last_left() {
    let engine = counting();
    let mine = Rc::new(Mine {
        processors: 2,
        process: Some(Box::new(|index, seen| {
            let mut scores = seen.scores.to_vec();
            match index {
                0 => scores[5] = 90.0,
                _ => scores[6] = scores[5] + 1.0,
            }
            Ok(scores)
        })),
        ..Mine::default()
    });
    let output = answer(&engine, &mine, &[&[0]], json!({"max_new_tokens": 1})).unwrap();
    assert_eq!(output.sequences, [[6]]);
}

#[test]
fn a_criterion_ends_its_sequence_alone_and_names_the_reason() {
    let engine = counting();
    let mine = Rc::new(Mine {
        criteria: 2,
        stops: Some(Box::new(|index, seen| {
            index == 1 && seen.ids.ends_with(&[2]) && seen.sequence == 0
        })),
        ..Mine::default()
    });
    let output = answer(&engine, &mine, &[&[0], &[1]], json!({"max_new_tokens": 3})).unwrap();
    assert_eq!(output.sequences, [vec![1, 2], vec![2, 3, 4]]);
    assert_eq!(output.texts, ["bc", "cde"]);
    let reasons = [StopReason::Custom, StopReason::MaxNewTokens];
    assert_eq!(output.stop_reasons, reasons);
    // All criteria are asked about every token; an end of the model's own comes first.
    let count = mine
        .asked
        .borrow()
        .iter()
        .filter(|a| a.starts_with("stops 0"))
        .count();
    assert_eq!(count, 5);
    let mine = Rc::new(Mine {
        criteria: 1,
        stops: Some(Box::new(|_, _| true)),
        ..Mine::default()
    });
    let ended = answer(&engine, &mine, &[&[6]], json!({})).unwrap();
    assert_eq!(ended.stop_reasons, [StopReason::Eos]);
}

#[test]
fn a_prefix_function_restricts_each_prompt() {
    let engine = counting();
    let allowed: Allowed = Box::new(|prompt, ids| match (prompt, ids.len()) {
        (0, _) => vec![5, 4],
        (_, 1) => vec![6],
        _ => vec![0, 1],
    });
    let mine = Rc::new(Mine::allowing(allowed));
    let output = answer(&engine, &mine, &[&[0], &[3]], json!({"max_new_tokens": 2})).unwrap();
    // Where nothing is better, the lowest id wins; after 4 comes 5.
    assert_eq!(output.sequences, [[4, 5], [6, 0]]);
    // What is allowed and was removed is forced: the caller's word counts for more.
    let config = json!({"max_new_tokens": 1, "bad_words_ids": [[4], [5]]});
    let forced = answer(&engine, &mine, &[&[0]], config).unwrap();
    assert_eq!(forced.sequences, [[4]]);
    let config = json!({"max_new_tokens": 1, "bad_words_ids": [[4]]});
    let other = answer(&engine, &mine, &[&[0]], config).unwrap();
    assert_eq!(other.sequences, [[5]]);
}

#[test]
fn beams_and_answers_and_drafts_ask_the_functions_too() {
    let engine = counting();
    let config = [
        (1, json!({"max_new_tokens": 3, "num_beams": 2})),
        (
            2,
            json!({"max_new_tokens": 3, "do_sample": true, "seed": 1, "num_return_sequences": 2}),
        ),
        (
            1,
            json!({"max_new_tokens": 3, "prompt_lookup_num_tokens": 2}),
        ),
    ];
    for (answers, config) in config {
        let mine = Rc::new(Mine {
            processors: 1,
            criteria: 1,
            process: Some(favour(3)),
            stops: Some(Box::new(|_, seen| seen.ids.ends_with(&[3, 3]))),
            ..Mine::default()
        });
        let output = answer(&engine, &mine, &[&[3, 4, 3, 4]], config.clone()).unwrap();
        assert_eq!(output.sequences.len(), answers, "{config}");
        for (ids, reason) in output.sequences.iter().zip(&output.stop_reasons) {
            assert_eq!(
                (ids.as_slice(), *reason),
                (&[3, 3][..], StopReason::Custom),
                "{config}"
            );
        }
    }
}

#[test]
fn mistakes_are_typed_errors_and_the_engine_goes_on() {
    let engine = counting();
    let refused = |mine: Mine, name: &str| {
        let mine = Rc::new(mine);
        let error = answer(&engine, &mine, &[&[0]], json!({})).unwrap_err();
        let name = name.to_owned();
        assert_eq!(error.kind(), &ErrorKind::InvalidOption { name });
        let plain = block_on(
            engine
                .generate(&json!([0]).into(), &json!({}).into())
                .unwrap()
                .output(),
        );
        assert_eq!(plain.unwrap().sequences, [[1, 2, 3, 4, 5, 6, 7]]);
        assert_eq!(engine.stats().cache_bytes_used, 0);
        error.to_string()
    };
    let processor = |process: Process| Mine {
        processors: 1,
        process: Some(process),
        ..Mine::default()
    };
    let short = refused(
        processor(Box::new(|_, seen| Ok(seen.scores[1..].to_vec()))),
        "logits_processor",
    );
    assert!(short.contains("returned 7 scores, allowed: 8"), "{short}");
    let thrown = |_: usize, _: Seen| {
        Err(Error::option(
            "logits_processor",
            "the function failed: why",
        ))
    };
    assert!(refused(processor(Box::new(thrown)), "logits_processor").contains("why"));
    let allowing = |ids: Vec<u32>| Mine::allowing(Box::new(move |_, _| ids.clone()));
    let name = "prefix_allowed_tokens_fn";
    assert!(refused(allowing(vec![]), name).contains("returned no token"));
    assert!(refused(allowing(vec![3, 8]), name).contains("returned 8, allowed: ids below 8"));

    // Scores that hold NaN are for the selection to refuse, as those of a model are.
    let mine = Rc::new(processor(Box::new(|_, seen| {
        Ok(vec![f32::NAN; seen.scores.len()])
    })));
    let error = answer(&engine, &mine, &[&[0]], json!({})).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::InvalidScores);
}

/// A pull that is dropped while a function works can be made again; a stop meanwhile ends the call.
#[test]
fn a_dropped_pull_and_a_stop_while_a_function_works() {
    let engine = counting();
    let mine = || {
        Rc::new(Mine {
            processors: 1,
            criteria: 1,
            process: Some(favour(3)),
            stops: Some(Box::new(|_, seen| seen.ids.len() == 3)),
            ..Mine::default()
        })
    };
    for polls in 1..5 {
        let mut generation = begin(&engine, &mine(), &[&[0]], json!({"max_new_tokens": 4}));
        {
            let mut pull = pin!(generation.next());
            for _ in 0..polls {
                if pull
                    .as_mut()
                    .poll(&mut Waiting::from_waker(Waker::noop()))
                    .is_ready()
                {
                    break;
                }
            }
        }
        let output = block_on(generation.output()).unwrap();
        assert_eq!(output.sequences, [[3, 3]], "dropped after {polls} polls");
        assert_eq!(output.stop_reasons, [StopReason::Custom]);
    }

    let failing = Rc::new(Mine {
        processors: 1,
        process: Some(Box::new(|_, _| {
            Err(Error::internal("nobody waits for this"))
        })),
        ..Mine::default()
    });
    let mut generation = begin(&engine, &failing, &[&[0]], json!({}));
    let stop = generation.stop_handle();
    {
        let mut pull = pin!(generation.next());
        assert!(
            pull.as_mut()
                .poll(&mut Waiting::from_waker(Waker::noop()))
                .is_pending()
        );
        stop.stop();
        assert_eq!(block_on(pull).unwrap(), None);
    }
    assert_eq!(
        generation.finish().unwrap().stop_reasons,
        [StopReason::Aborted]
    );
}
