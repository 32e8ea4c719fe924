//! The function that restricts tokens, for the golden cases of it.

use std::{cell::RefCell, collections::VecDeque, future::ready};

use decant::{
    error::Result,
    exec::LocalFuture,
    generation::{
        Source,
        callbacks::{Callbacks, Functions, Seen},
        processors::{Context, ScoredRow, Scratch, Stage, Work, run},
    },
};
use pollster::block_on;

use crate::processors_golden::{difference, ids, sequences};

/// What is allowed in each row, in the order in which rows are asked about.
struct Prefix(RefCell<VecDeque<Vec<u32>>>);

impl Callbacks for Prefix {
    fn functions(&self) -> Functions {
        Functions {
            allowed_tokens: true,
            ..Functions::default()
        }
    }

    fn process<'a>(&'a self, _: usize, _: Seen<'a>) -> LocalFuture<'a, Result<Vec<f32>>> {
        unreachable!()
    }

    fn allowed_tokens<'a>(&'a self, _: usize, _: &'a [u32]) -> LocalFuture<'a, Result<Vec<u32>>> {
        let next = self.0.borrow_mut().pop_front();
        Box::pin(ready(Ok(next.unwrap())))
    }

    fn stops<'a>(&'a self, _: usize, _: Seen<'a>) -> LocalFuture<'a, Result<bool>> {
        unreachable!()
    }
}

/// Where a case of `PrefixConstrainedLogitsProcessor` and what we make of it part.
pub fn run_prefix(case: &serde_json::Value) -> std::result::Result<(), String> {
    let args = &case["args"];
    let allowed = args["allowed"].as_array().unwrap().iter().map(ids);
    let prefix = Prefix(RefCell::new(allowed.collect()));
    let stages = [Stage {
        work: Work::AllowedTokens,
        source: Source::Call,
    }];
    let mut sequences = sequences(case);
    let beams = args["num_beams"].as_u64().unwrap() as usize;
    for (prompt, beams) in sequences.chunks_mut(beams).enumerate() {
        let rows = beams.iter_mut().map(|sequence| ScoredRow {
            context: Context {
                ids: &sequence.ids,
                prompt_length: sequence.prompt_length,
                ..Context::default()
            },
            scores: &mut sequence.scores,
        });
        let mut rows: Vec<_> = rows.collect();
        let mut scratch = Scratch::default();
        let work = run(&stages, prompt, &mut rows, Some(&prefix), &mut scratch);
        block_on(work).map_err(|error| error.to_string())?;
    }
    let wrong = sequences
        .iter()
        .find_map(|s| difference(&s.scores, &s.expected));
    wrong.map_or(Ok(()), Err)
}
