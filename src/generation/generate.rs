//! The loop: one forward pass, processors, selection, stopping, text; pulled token by token.
//!
//! A [`Generation`] does nothing until it is pulled, computes at most one step a [`pull`](Generation::pull)
//! (where the device chooses, it hands over several and waits for the first), and gives its pages back when it
//! ends, is stopped, fails, or is dropped. A pull that is dropped while it waits can be made again.
//!
//! Greedy decoding, sampling, beams and drafts are this one loop. What differs is how many sequences go
//! on from a prompt, and what is chosen from their scores (`group`).

mod ahead;
mod evaluate;
mod watch;

use std::{collections::VecDeque, rc::Rc};

use ahead::Ahead;
pub use ahead::RunAhead;

use super::{
    arguments::Prepared,
    callbacks::Callbacks,
    candidates::{Drafter, Speculation},
    config::{Source, Warning},
    engine::{Shared, StopHandle},
    group::{Answer, Group, Turn},
    output::{Event, Output, Pull},
    plan::Plan,
    processors::Scratch,
    stats::{Timings, Usage},
    stopping::{Criterion, StopReason},
};
use crate::{
    error::Result,
    exec::{Executor, Profile, sample::Sampler},
    tape::Step,
};

/// A running call.
pub struct Generation {
    engine: Rc<Shared>,
    plan: Plan,
    groups: Vec<Group>,
    drafter: Option<Drafter>,
    events: VecDeque<Event>,
    stop: StopHandle,
    state: State,
    usage: Usage,
    timings: Timings,
    speculation: Speculation,
    step: Step,
    rows: Vec<usize>,
    /// Memory for rows of scores.
    buffers: Vec<Vec<f32>>,
    scratch: Scratch,
    callbacks: Option<Rc<dyn Callbacks>>,
    /// What is on the device, where tokens are chosen there.
    ahead: Option<Ahead>,
    /// How the device lists what beams may go on with, where it does.
    lister: Option<Sampler>,
    profile: Option<Profile>,
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
    pub(super) fn new(
        engine: Rc<Shared>,
        mut plan: Plan,
        prompts: Vec<Prepared>,
        drafter: Option<Drafter>,
        callbacks: Option<Rc<dyn Callbacks>>,
        profile: Option<Profile>,
        sampler: Option<Sampler>,
    ) -> Self {
        let context = engine.model.context_length;
        let length = |p: &Prepared| p.prompt.len() + usize::from(p.healing.is_some());
        let lengths = prompts.iter().map(length);
        let longest = lengths.clone().max().unwrap_or(0);
        let usage = Usage {
            prompt_tokens: lengths.sum(),
            ..Usage::default()
        };
        plan.warnings.extend(capped(&plan, longest, context));
        let groups = prompts.into_iter().enumerate();
        let groups = groups.map(|(at, prepared)| Group::new(at, prepared, &plan));
        let (lister, sampler) = match sampler {
            Some(sampler) if sampler.search => (Some(sampler), None),
            sampler => (None, sampler),
        };
        Self {
            ahead: sampler.map(Ahead::new),
            lister,
            groups: groups.collect(),
            engine,
            plan,
            drafter,
            events: VecDeque::new(),
            stop: StopHandle::default(),
            state: State::Waiting,
            usage,
            timings: Timings::default(),
            speculation: Speculation::default(),
            step: Step::default(),
            rows: Vec::new(),
            buffers: Vec::new(),
            scratch: Scratch::default(),
            callbacks,
            profile,
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
            match self.pull().await? {
                Pull::Token(event) => return Ok(Some(event)),
                Pull::Nothing => {}
                Pull::End => return Ok(None),
            }
        }
    }

    /// The same, but computes at most one step: for callers who have something else to do in between.
    pub async fn pull(&mut self) -> Result<Pull> {
        if self.stop.is_stopped() {
            self.end(Ok(()));
            return Ok(Pull::End);
        }
        if self.events.is_empty() && !matches!(self.state, State::Ended(_)) {
            let advanced = self.advance().await;
            // Whoever asks for the end need not wait for the caller's functions, which then fail.
            if let Err(error) = advanced
                && !self.stop.is_stopped()
            {
                self.end(Err(error.clone()));
                return Err(error);
            }
            // Nothing of a step is shown that was computed while the end was asked for.
            if self.stop.is_stopped() {
                self.end(Ok(()));
                return Ok(Pull::End);
            }
        }
        Ok(match (self.events.pop_front(), &self.state) {
            (Some(event), _) => Pull::Token(event),
            (None, State::Ended(_)) => Pull::End,
            (None, _) => Pull::Nothing,
        })
    }

    /// Ends the work, if it has not ended, and gives what there is. Sequences that had not ended count
    /// as aborted.
    pub fn finish(&mut self) -> Result<Output> {
        self.end(Ok(()));
        if let State::Ended(Err(error)) = &self.state {
            return Err(error.clone());
        }
        let tactics = self.plan.tactics;
        let answers: Vec<Answer> = self.groups.iter().flat_map(Group::answers).collect();
        let (mut scores, mut logits) = (Vec::new(), Vec::new());
        for group in &mut self.groups {
            let record = group.record();
            scores.extend(record.scores);
            logits.extend(record.logits);
        }
        let searched = tactics.beams.is_some();
        let each = |wanted: bool| wanted.then(|| answers.iter());
        Ok(Output {
            sequences_scores: each(searched)
                .and_then(|all| all.map(|answer| answer.score).collect()),
            beam_indices: each(searched)
                .map(|all| all.map(|answer| answer.beam_indices.clone()).collect()),
            token_scores: each(tactics.top_logprobs.is_some())
                .map(|all| all.map(|answer| answer.token_scores.clone()).collect()),
            transition_scores: each(tactics.output_scores)
                .map(|all| all.map(|answer| answer.transition_scores.clone()).collect()),
            scores: tactics.output_scores.then_some(scores),
            logits: tactics.output_logits.then_some(logits),
            speculation: self.drafter.is_some().then_some(self.speculation),
            texts: answers.iter().map(|answer| answer.text.clone()).collect(),
            stop_reasons: answers.iter().map(|answer| answer.reason).collect(),
            sequences: answers.into_iter().map(|answer| answer.ids).collect(),
            usage: self.usage,
            timings: self.timings,
            kernels: self.profile.as_ref().map(Profile::kernels),
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
            for group in &mut self.groups {
                self.usage.cached_tokens += group.begin(&self.engine, &self.plan)?;
            }
        }
        let (prompt_rows, chosen) = match self.ahead.is_some() {
            true => self.advance_ahead(&*executor).await?,
            false => self.advance_once(&*executor).await?,
        };
        let milliseconds = (self.engine.now() - entered) * 1000.0;
        if prompt_rows > 0 {
            self.timings.prefill_tokens += prompt_rows;
            self.timings.prefill_ms += milliseconds;
        } else {
            self.timings.decode_ms += milliseconds;
            self.timings.decode_tokens += chosen;
        }
        if self.groups.iter().all(Group::is_over) {
            self.end(Ok(()));
        }
        Ok(())
    }

    /// One pass whose scores the host chooses from; returns how many rows were of prompts, and what
    /// [`choose`](Self::choose) does.
    async fn advance_once(&mut self, executor: &dyn Executor) -> Result<(usize, usize)> {
        self.propose().await?;
        let prompt_rows = self.evaluate(executor).await?;
        let chosen = match self.stop.is_stopped() {
            true => 0,
            false => self.choose().await?,
        };
        Ok((prompt_rows, chosen))
    }

    /// Lets the next pass verify a draft, where there is a drafter and one sequence waits for its next
    /// token.
    async fn propose(&mut self) -> Result<()> {
        let (Some(drafter), [group]) = (&mut self.drafter, &mut self.groups[..]) else {
            return Ok(());
        };
        let Some(start) = group.start(&self.engine) else {
            return Ok(());
        };
        let draft = drafter.draft(start, &self.plan, &mut self.scratch).await?;
        group.propose(draft);
        Ok(())
    }

    /// Chooses what follows wherever all scores are there; returns how many tokens of answers that makes, of a
    /// search once it is over.
    async fn choose(&mut self) -> Result<usize> {
        let seconds = self.seconds();
        let before = self.speculation;
        let mut turn = Turn {
            engine: &self.engine,
            plan: &self.plan,
            seconds,
            usage: &mut self.usage,
            timings: &mut self.timings,
            speculation: &mut self.speculation,
            events: &mut self.events,
            callbacks: self.callbacks.as_deref(),
        };
        let mut chosen = 0;
        for group in &mut self.groups {
            let (scratch, buffers) = (&mut self.scratch, &mut self.buffers);
            group.process(&turn, scratch, buffers).await?;
            chosen += group.choose(&mut turn).await?;
        }
        let drafted = self.speculation.drafted - before.drafted;
        if let Some(drafter) = self.drafter.as_mut().filter(|_| drafted > 0) {
            drafter.learn(drafted, self.speculation.accepted - before.accepted);
        }
        Ok(chosen)
    }

    /// The one place where a generation ends: pages go back, held text is kept, figures are counted.
    fn end(&mut self, mut result: Result<()>) {
        if matches!(self.state, State::Ended(_)) {
            return;
        }
        let reason = result.is_ok().then_some(StopReason::Aborted);
        if let Some(mut ahead) = self.ahead.take() {
            self.timings.steps_wasted += ahead.clear() as u64;
            self.groups.iter_mut().for_each(Group::forget_ahead);
        }
        for group in &mut self.groups {
            match group.end(reason, &self.engine, &self.plan) {
                Err(error) => result = Err(error),
                Ok(found) => {
                    self.usage.completion_tokens += found.tokens;
                    self.timings.decode_tokens += found.decoded;
                }
            }
        }
        if self.stop.is_stopped() || result.is_err() {
            self.events.clear();
        }
        let failed = result.is_err();
        let reasons: Vec<StopReason> = match failed {
            false => self.groups.iter().flat_map(Group::reasons).collect(),
            true => Vec::new(),
        };
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
