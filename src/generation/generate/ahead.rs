//! The device home: tokens are chosen where the scores are, and steps run ahead of what is shown.
//!
//! A *flight* is a run of steps that was handed to the device and whose choices have not come back. Two are
//! in the air: while the choices of one are shown, the device works on the next. Where a sequence ends is
//! found late; what was computed after it is dropped, and nothing of it is shown. Pages are counted as
//! filled when a flight begins, and given back where its tokens are not wanted.

use std::collections::VecDeque;

use super::{Generation, State, evaluate::Place, watch::watched};
use crate::{
    error::{Error, Result},
    exec::{
        Executor, LocalFuture, TapeId,
        sample::{MOST_STEPS, Pick, Run, Sampler},
    },
    generation::{
        batch::clear,
        group::{Group, Turn},
        sequence::Track,
    },
};

/// How far steps run ahead of what is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunAhead {
    /// As many steps as take about 30 ms, at least one.
    #[default]
    Adaptive,
    /// This many steps at once.
    Steps(usize),
    /// Not at all: the host chooses every token.
    Host,
}

/// Seconds of work in a flight.
const FLIGHT_SECONDS: f64 = 0.03;
/// Flights in the air.
const FLIGHTS: usize = 2;

/// What is on the device.
pub(super) struct Ahead {
    sampler: Sampler,
    flights: VecDeque<Flight>,
    /// The sequences of the last flight, in the order of its outputs.
    sequences: Vec<Place>,
    /// The executor's epoch after it.
    epoch: u64,
    /// Seconds that a step took lately.
    pace: Option<f64>,
    /// When the last flight came back, in seconds.
    landed: f64,
}

struct Flight {
    picks: LocalFuture<'static, Result<Vec<Pick>>>,
    sequences: Vec<Place>,
    steps: usize,
    prompt_rows: usize,
    /// When it was handed over, in seconds.
    launched: f64,
}

impl Ahead {
    pub fn new(sampler: Sampler) -> Self {
        Self {
            sampler,
            flights: VecDeque::new(),
            sequences: Vec::new(),
            epoch: 0,
            pace: None,
            landed: 0.0,
        }
    }

    /// Forgets all flights; returns how many steps they were.
    pub fn clear(&mut self) -> usize {
        self.flights.drain(..).map(|flight| flight.steps).sum()
    }

    fn in_flight(&self) -> usize {
        self.flights.iter().map(|flight| flight.steps).sum()
    }
}

impl Generation {
    /// Keeps the device busy and takes the choices of one flight; returns how many rows were of prompts
    /// and how many tokens were chosen.
    pub(super) async fn advance_ahead(
        &mut self,
        executor: &dyn Executor,
    ) -> Result<(usize, usize)> {
        let mut read = 0;
        if let Some(mut ahead) = self.ahead.take() {
            let silent = self.take_off(executor, &mut ahead, &mut read);
            self.ahead = Some(ahead);
            if let Some(tape) = silent? {
                let (profile, timings) = (self.profile.as_ref(), &mut self.timings);
                let step = &self.step;
                watched(executor, profile, timings, || executor.forward(tape, step)).await?;
            }
        }
        let front = self.ahead.as_mut().and_then(|a| a.flights.front_mut());
        let Some(flight) = front else {
            return Ok((read, 0));
        };
        // A pull that is dropped here finds the flight where it was.
        let picks = (&mut flight.picks).await;
        let Some(ahead) = &mut self.ahead else {
            return Ok((read, 0));
        };
        let Some(flight) = ahead.flights.pop_front() else {
            return Ok((read, 0));
        };
        let picks = picks?;
        self.timings.bytes_read += (picks.len() * ahead.sampler.result_bytes()) as u64;
        let now = self.engine.now();
        if flight.prompt_rows == 0 {
            let began = flight.launched.max(ahead.landed);
            let seconds = (now - began) / flight.steps as f64;
            ahead.pace = Some(ahead.pace.map_or(seconds, |pace| (pace + seconds) / 2.0));
        }
        ahead.landed = now;
        if self.stop.is_stopped() {
            self.timings.steps_wasted += flight.steps as u64;
            return Ok((read + flight.prompt_rows, 0));
        }
        let chosen = self.land(&flight, &picks)?;
        Ok((read + flight.prompt_rows, chosen))
    }

    /// Seconds since the first pull.
    pub(super) fn seconds(&self) -> f64 {
        match self.state {
            State::Running(started) => self.engine.now() - started,
            _ => 0.0,
        }
    }

    /// Hands work to the device until there is enough, or nothing follows from what is known. Where no token
    /// follows from the rows of prompts that are next, they are counted in `read`, and the tape on which the
    /// step is still to be run is returned.
    fn take_off(
        &mut self,
        executor: &dyn Executor,
        ahead: &mut Ahead,
        read: &mut usize,
    ) -> Result<Option<TapeId>> {
        while ahead.flights.len() < FLIGHTS {
            if self.plain(ahead) {
                if !self.launch(executor, ahead)? {
                    break;
                }
            } else if ahead.flights.is_empty() {
                if let Some(silent) = self.launch_rows(executor, ahead, read)? {
                    return Ok(Some(silent));
                }
            } else {
                // Whatever else there is to evaluate depends on tokens that the host must know.
                break;
            }
        }
        self.timings.run_ahead = self.timings.run_ahead.max(ahead.in_flight());
        Ok(None)
    }

    /// Whether every sequence that runs has one token to evaluate, known or still on the device, that no other
    /// goes on from, and a step takes them all.
    fn plain(&mut self, ahead: &Ahead) -> bool {
        let in_flight = ahead.in_flight();
        let running = self.groups.iter_mut().flat_map(Group::tracks);
        let waiting = |track: &mut Track| {
            let stored = track.table.as_ref().map_or(0, |table| table.length());
            (track.ids.len() + in_flight).checked_sub(stored)
        };
        let waiting: Vec<Option<usize>> = running.map(waiting).collect();
        let same = ahead.flights.is_empty() || waiting.len() == ahead.sequences.len();
        let one = waiting.iter().all(|waiting| *waiting == Some(1));
        let alone = self.groups.iter().all(|group| group.copies() == 1);
        one && same && alone && self.tape_for(waiting.len()).is_some()
    }

    /// The smallest tape that takes a row and an output for each of `sequences` sequences.
    fn tape_for(&self, sequences: usize) -> Option<TapeId> {
        let capacity = &self.engine.capacity;
        let fits = capacity.tapes.iter().enumerate().filter(|(_, size)| {
            size.max_rows.min(size.max_outputs).min(capacity.sequences) >= sequences
        });
        let smallest = fits.min_by_key(|(_, size)| size.max_rows);
        smallest.map(|(at, _)| TapeId(at))
    }

    /// Hands the next steps of all running sequences to the device, if any may follow.
    fn launch(&mut self, executor: &dyn Executor, ahead: &mut Ahead) -> Result<bool> {
        let in_flight = ahead.in_flight();
        let running = self.running();
        let left = running
            .iter()
            .map(|&(at, place)| self.groups[at].left(place));
        let left = left.min().unwrap_or(0).saturating_sub(in_flight);
        let known = ahead.sequences == running && ahead.epoch == executor.epoch();
        let Some(tape) = self.tape_for(running.len()) else {
            return Ok(false);
        };
        // Where somebody else used the device, it has the tokens no more.
        if left == 0 || (in_flight > 0 && !known) {
            return Ok(false);
        }
        let wanted = match (self.engine.run_ahead.get(), ahead.pace) {
            (RunAhead::Steps(steps), _) => steps,
            (_, Some(pace)) if pace > 0.0 => (FLIGHT_SECONDS / pace) as usize,
            _ => 1,
        };
        let steps = wanted.clamp(1, MOST_STEPS).min(left);
        let step = &mut self.step;
        clear(step);
        step.tables.clear();
        for (slot, &(at, place)) in running.iter().enumerate() {
            let (last, table) = self.groups[at].next_row(place)?;
            if let Some(copy) = table.prepare(steps)? {
                executor.copy_page(copy.from, copy.to)?;
            }
            step.tokens.push(last);
            step.positions.push(table.length() as u32);
            step.slots.push(slot as u32);
            step.outputs.push(slot as u32);
            step.tables.push(table.pages().to_vec());
            step.angles.push(table.angles());
            table.advance(steps);
        }
        self.hand_over(executor, ahead, tape, running, steps, 0, known)?;
        Ok(true)
    }

    /// Hands one step of whatever is not evaluated to the device; or see [`take_off`](Self::take_off).
    fn launch_rows(
        &mut self,
        executor: &dyn Executor,
        ahead: &mut Ahead,
        read: &mut usize,
    ) -> Result<Option<TapeId>> {
        let tape = self.pack(executor, true)?;
        let completed = self.completed();
        let prompt_rows = self.store(&mut std::iter::empty());
        if completed.is_empty() {
            *read += prompt_rows;
            return Ok(Some(tape));
        }
        let mut chosen = Vec::new();
        for (at, place) in completed {
            let copies = self.groups[at].copies();
            self.groups[at].branch_out();
            chosen.extend((place..place + copies).map(|place| (at, place)));
        }
        self.hand_over(executor, ahead, tape, chosen, 1, prompt_rows, false)?;
        Ok(None)
    }

    #[expect(clippy::too_many_arguments, reason = "what a flight is, once")]
    fn hand_over(
        &mut self,
        executor: &dyn Executor,
        ahead: &mut Ahead,
        tape: TapeId,
        sequences: Vec<Place>,
        steps: usize,
        prompt_rows: usize,
        resume: bool,
    ) -> Result<()> {
        let in_flight = ahead.in_flight();
        let rows = sequences
            .iter()
            .map(|&(at, place)| self.groups[at].row(place, in_flight));
        let rows: Vec<_> = rows.collect();
        let run = Run {
            sampler: &ahead.sampler,
            rows: &rows,
            steps,
            resume,
        };
        let (profile, timings, step) = (self.profile.as_ref(), &mut self.timings, &self.step);
        let hand_over = || executor.sample(tape, step, &run);
        let picks = watched(executor, profile, timings, hand_over);
        ahead.epoch = executor.epoch();
        ahead.sequences.clone_from(&sequences);
        ahead.flights.push_back(Flight {
            picks,
            sequences,
            steps,
            prompt_rows,
            launched: self.engine.now(),
        });
        Ok(())
    }

    /// Appends what a flight brought to the sequences that still run; returns how many tokens those were.
    fn land(&mut self, flight: &Flight, picks: &[Pick]) -> Result<usize> {
        if picks.len() != flight.steps * flight.sequences.len() {
            return Err(Error::internal(format!(
                "{} choices of {} steps for {} sequences",
                picks.len(),
                flight.steps,
                flight.sequences.len()
            )));
        }
        let seconds = self.seconds();
        let mut turn = Turn {
            engine: &self.engine,
            plan: &self.plan,
            seconds,
            usage: &mut self.usage,
            timings: &mut self.timings,
            speculation: &mut self.speculation,
            events: &mut self.events,
            callbacks: None,
        };
        let mut chosen = 0;
        for step in picks.chunks(flight.sequences.len()) {
            let mut wanted = false;
            for (pick, &(at, place)) in step.iter().zip(&flight.sequences) {
                let group = &mut self.groups[at];
                if group.has_ended(place) {
                    continue;
                }
                wanted = true;
                group.take(place, pick, &mut turn)?;
                chosen += 1;
            }
            turn.timings.steps_wasted += u64::from(!wanted);
        }
        Ok(chosen)
    }
}
