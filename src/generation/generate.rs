//! The loop: one forward pass, processors, selection, stopping, text; pulled token by token.
//!
//! A [`Generation`] does nothing until it is pulled, computes one step a pull (more while it reads the
//! prompt), and gives its pages back when it ends, is stopped, fails, or is dropped. All state changes
//! after a step's wait, so a pull that is dropped half-way can be pulled again.

use std::{collections::VecDeque, rc::Rc};

use super::{
    batch::{Outputs, Pending, pack},
    config::{Source, Warning},
    engine::{Shared, StopHandle},
    plan::Plan,
    processors::{Context, Scratch},
    selection::Draw,
    sequence::Sequence,
    stats::{Timings, Usage},
    stopping::{Criterion, Progress, StopReason},
};
use crate::{
    error::{Error, Result},
    exec::Counters,
    tape::Step,
};

/// A token, as soon as it is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Which sequence it belongs to: the index of its prompt.
    pub sequence: usize,
    /// The token.
    pub token_id: u32,
    /// Text that became certain with it: empty while a character or a possible stop string is
    /// unfinished, everything held back with the last token. The texts of a sequence join to its text,
    /// unless it is stopped from outside: what was held back then is in the output alone.
    pub text: String,
}

/// What a call produced. The lists have an entry for each prompt.
#[derive(Debug, Clone)]
pub struct Output {
    /// New ids, end tokens included.
    pub sequences: Vec<Vec<u32>>,
    /// Their text, without end token, special tokens and stop string.
    pub texts: Vec<String>,
    /// Why each ended.
    pub stop_reasons: Vec<StopReason>,
    /// Tokens read and written.
    pub usage: Usage,
    /// Where the time went.
    pub timings: Timings,
    /// What was done.
    pub plan: Plan,
}

/// A running call.
pub struct Generation {
    engine: Rc<Shared>,
    plan: Plan,
    sequences: Vec<Sequence>,
    events: VecDeque<Event>,
    stop: StopHandle,
    state: State,
    usage: Usage,
    timings: Timings,
    step: Step,
    rows: Vec<usize>,
    scratch: Scratch,
}

enum State {
    /// Not pulled yet.
    Waiting,
    /// Pulled for the first time at this moment, in seconds.
    Running(f64),
    /// Over.
    Ended(Result<()>),
}

impl Generation {
    /// Prompts are checked; none is empty.
    pub(super) fn new(engine: Rc<Shared>, mut plan: Plan, prompts: Vec<Vec<u32>>) -> Self {
        let context = engine.model.context_length;
        let longest = prompts.iter().map(Vec::len).max().unwrap_or(0);
        plan.warnings.extend(capped(&plan, longest, context));
        let usage = Usage {
            prompt_tokens: prompts.iter().map(Vec::len).sum(),
            ..Usage::default()
        };
        Self {
            engine,
            plan,
            sequences: prompts.into_iter().map(Sequence::new).collect(),
            events: VecDeque::new(),
            stop: StopHandle::default(),
            state: State::Waiting,
            usage,
            timings: Timings::default(),
            step: Step::default(),
            rows: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// What is being done.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Stops this generation, also while [`next`](Self::next) is pending.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// The next token, or `None` once all sequences have ended. An error is given once.
    pub async fn next(&mut self) -> Result<Option<Event>> {
        loop {
            if self.stop.is_stopped() {
                self.end(Ok(()));
                return Ok(None);
            }
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if matches!(self.state, State::Ended(_)) {
                return Ok(None);
            }
            if let Err(error) = self.advance().await {
                self.end(Err(error.clone()));
                return Err(error);
            }
        }
    }

    /// Ends the work, if it has not ended, and gives what there is. Sequences that had not ended count
    /// as aborted.
    pub fn finish(&mut self) -> Result<Output> {
        self.end(Ok(()));
        if let State::Ended(Err(error)) = &self.state {
            return Err(error.clone());
        }
        let reason = |sequence: &Sequence| sequence.reason.unwrap_or(StopReason::Aborted);
        Ok(Output {
            sequences: self.sequences.iter().map(Sequence::answer).collect(),
            texts: self.sequences.iter().map(|s| s.text.clone()).collect(),
            stop_reasons: self.sequences.iter().map(reason).collect(),
            usage: self.usage,
            timings: self.timings,
            plan: self.plan.clone(),
        })
    }

    /// Pulls to the end and gives the output, whether or not anybody looked at the events.
    pub async fn output(&mut self) -> Result<Output> {
        while self.next().await?.is_some() {}
        self.finish()
    }

    /// One forward pass and what follows from it.
    async fn advance(&mut self) -> Result<()> {
        let executor = self.engine.executor()?;
        let entered = self.engine.now();
        if matches!(self.state, State::Waiting) {
            self.state = State::Running(entered);
            self.begin()?;
        }
        let mut pending: Vec<Pending> = self
            .sequences
            .iter_mut()
            .filter_map(Sequence::pending)
            .collect();
        let tape = pack(
            &self.engine.capacity,
            &mut pending,
            Outputs::Last,
            &*executor,
            &mut self.step,
            &mut self.rows,
        )?;
        let before = executor.counters();
        let logits = executor.forward(tape, &self.step);
        let after = executor.counters();
        let mut logits = logits.await?;
        self.count(before, after, &logits);
        let prompt_rows = self.commit();
        let chosen = match self.stop.is_stopped() {
            true => 0,
            false => self.choose(&mut logits)?,
        };
        let milliseconds = (self.engine.now() - entered) * 1000.0;
        if prompt_rows > 0 {
            self.timings.prefill_tokens += prompt_rows;
            self.timings.prefill_ms += milliseconds;
        } else {
            self.timings.decode_ms += milliseconds;
            self.timings.decode_tokens += chosen;
        }
        if self.sequences.iter().all(|s| s.reason.is_some()) {
            self.end(Ok(()));
        }
        Ok(())
    }

    /// Takes pages and decoders for every sequence, or none.
    fn begin(&mut self) -> Result<()> {
        for sequence in &mut self.sequences {
            let longest = self.plan.longest(sequence.ids.len());
            sequence.begin(&self.engine, self.plan.stop_strings(), longest)?;
            self.usage.cached_tokens += sequence.cached();
        }
        Ok(())
    }

    /// Counts the step's rows as stored; returns how many were of prompts.
    fn commit(&mut self) -> usize {
        let running = self.sequences.iter_mut().filter(|s| s.reason.is_none());
        let stored = running
            .zip(&self.rows)
            .map(|(sequence, &rows)| sequence.advance(rows));
        stored.sum()
    }

    /// Chooses a token for every sequence whose last row was evaluated; `logits` holds a row for each.
    /// Returns how many there were.
    fn choose(&mut self, logits: &mut [f32]) -> Result<usize> {
        let vocabulary = self.engine.model.vocabulary;
        if logits.len() != self.step.outputs.len() * vocabulary {
            return Err(Error::internal(format!(
                "{} logits for {} outputs of {vocabulary}",
                logits.len(),
                self.step.outputs.len()
            )));
        }
        let mut rows = logits.chunks_exact_mut(vocabulary);
        for index in 0..self.sequences.len() {
            if self.sequences[index].awaits_choice()
                && let Some(scores) = rows.next()
            {
                self.append(index, scores)?;
            }
        }
        Ok(self.step.outputs.len())
    }

    /// Appends the next token of the sequence at `index`, chosen from `scores`.
    fn append(&mut self, index: usize, scores: &mut [f32]) -> Result<()> {
        let sequence = &mut self.sequences[index];
        let context = Context {
            ids: &sequence.ids,
            prompt_length: sequence.prompt_length,
            sequence: index,
            unconditional: None,
        };
        for stage in &self.plan.processors {
            stage.processor.process(&context, scores, &mut self.scratch);
        }
        let draw = Draw {
            sequence: index as u32,
            step: sequence.new_tokens() as u32,
        };
        let token = self.plan.selection.select(scores, draw)?;
        let is_end = self.plan.eos_token_ids().contains(&token);
        let mut shown = sequence.push(token, is_end)?;
        let now = self.engine.now();
        let started = match self.state {
            State::Running(started) => started,
            _ => now,
        };
        self.usage.completion_tokens += 1;
        self.timings
            .time_to_first_token_ms
            .get_or_insert((now - started) * 1000.0);
        let progress = Progress {
            token,
            new_tokens: sequence.new_tokens(),
            length: sequence.ids.len(),
            stop_string: shown.stopped,
            seconds: now - started,
        };
        let mut rules = self.plan.stopping.iter();
        if let Some(reason) = rules.find_map(|rule| rule.criterion.stop(&progress)) {
            shown.text.push_str(&sequence.end(Some(reason))?);
        }
        sequence.text.push_str(&shown.text);
        self.events.push_back(Event {
            sequence: index,
            token_id: token,
            text: shown.text,
        });
        Ok(())
    }

    fn count(&mut self, before: Counters, after: Counters, logits: &[f32]) {
        let timings = &mut self.timings;
        timings.forwards += 1;
        timings.dispatches += after.dispatches - before.dispatches;
        timings.submits += after.submits - before.submits;
        timings.bytes_uploaded += after.bytes_uploaded - before.bytes_uploaded;
        timings.bytes_read += size_of_val(logits) as u64;
    }

    /// The one place where a generation ends: pages go back, held text is kept, figures are counted.
    fn end(&mut self, mut result: Result<()>) {
        if matches!(self.state, State::Ended(_)) {
            return;
        }
        let mut reasons = Vec::new();
        for sequence in &mut self.sequences {
            if sequence.reason.is_none() {
                match sequence.end(result.is_ok().then_some(StopReason::Aborted)) {
                    Ok(text) => sequence.text.push_str(&text),
                    Err(error) => result = Err(error),
                }
            }
            reasons.extend(sequence.reason);
        }
        if self.stop.is_stopped() || result.is_err() {
            self.events.clear();
        }
        let failed = result.is_err();
        self.engine
            .totals
            .borrow_mut()
            .add(self.usage, &self.timings, &reasons, failed);
        self.state = State::Ended(result);
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        // One that was never pulled took nothing and is no part of the figures.
        if matches!(self.state, State::Running(_)) {
            self.end(Ok(()));
        }
    }
}

/// A warning if the context ends the answer to a prompt of `prompt` tokens before the call's own limit.
fn capped(plan: &Plan, prompt: usize, context: usize) -> Option<Warning> {
    let mut limits = plan
        .stopping
        .iter()
        .filter(|rule| rule.source == Source::Call);
    let wanted = limits.find_map(|rule| match rule.criterion {
        Criterion::MaxNewTokens(count) => Some(count),
        _ => None,
    })?;
    let room = context - prompt;
    (wanted > room).then(|| Warning {
        field: "max_new_tokens".into(),
        message: format!(
            "the context of {context} tokens ends the answer after {room}: the prompt has {prompt}"
        ),
    })
}
