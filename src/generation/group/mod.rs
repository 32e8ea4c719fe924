//! The sequences that go on from one prompt. They share its evaluation and its pages; then each goes
//! its own way, or all of them search together as beams.

mod ahead;
mod answer;
mod beams;
mod branches;
mod turn;

pub(super) use answer::{Answer, Found};
pub(super) use turn::{Record, Turn};

use super::{
    angles::LongAngles,
    arguments::Prepared,
    candidates::{Draft, Start},
    engine::Shared,
    healing::Healing,
    output::Event,
    plan::Plan,
    processors::{self, Context, ScoredRow, Scratch, Stage, Work, log_softmax},
    selection::{BeamSearch, Draw},
    sequence::{Sequence, Track},
    stopping::{Progress, StopReason},
    streamer::Streamer,
};
use crate::error::Result;

/// A prompt and what follows it.
pub(super) struct Group {
    /// The prompt's place in the call.
    prompt: usize,
    /// The most tokens that an answer may have.
    answer: usize,
    /// The prompt's last token, while it is to be chosen again.
    healing: Option<Healing>,
    /// Whether guidance leads away from that token, for want of a negative prompt.
    leads_from_last: bool,
    /// How many answers are wanted.
    answers: usize,
    /// How many sequences go on from the prompt: answers, or beams.
    branches: usize,
    /// Sequences that run or have ended; before the prompt is evaluated there is one.
    rows: Vec<Sequence>,
    search: Option<BeamSearch<Answer>>,
    /// What the prompt's last token says beyond what it said before it was chosen again.
    healed: String,
    /// What beam search found.
    found: Vec<Answer>,
    /// The draft that is being verified, in the one row there is then.
    draft: Draft,
    record: Record,
}

impl Group {
    /// The group of the prompt at place `at`. Nothing is taken yet.
    pub fn new(at: usize, prepared: Prepared, plan: &Plan) -> Self {
        let Prepared {
            prompt,
            negative_prompt,
            leads_from_last,
            healing,
        } = prepared;
        let length = prompt.len() + usize::from(healing.is_some());
        let answer = plan.longest(length) - length;
        let beams = plan.tactics.beams;
        Self {
            prompt: at,
            answer,
            healing,
            leads_from_last,
            answers: plan.tactics.answers,
            branches: plan.tactics.branches(),
            rows: vec![Sequence::new(prompt, negative_prompt)],
            search: beams.map(|settings| BeamSearch::new(settings, answer)),
            healed: String::new(),
            found: Vec::new(),
            draft: Draft::default(),
            record: Record::default(),
        }
    }

    /// Takes the pages that all its sequences may need; returns how many tokens of the prompt were in
    /// the cache.
    pub fn begin(&mut self, engine: &Shared, plan: &Plan) -> Result<usize> {
        let branches = plan.tactics.branches();
        let healed = usize::from(self.healing.is_some());
        let first = &mut self.rows[0];
        for track in first.tracks() {
            let longest = track.ids.len() + healed + self.answer;
            track.begin(engine, longest, branches, plan.tactics.use_cache)?;
        }
        let table = first.main.table.as_ref();
        let cached = table.map_or(0, |table| table.length());
        if self.healing.is_none() {
            self.read_along(engine, plan)?;
        }
        Ok(cached)
    }

    /// Begins to make text of the answer, now that the prompt is certain.
    fn read_along(&mut self, engine: &Shared, plan: &Plan) -> Result<()> {
        let stops = plan.stop_strings();
        let first = &mut self.rows[0];
        // Beams are read when they are final; until then only stop strings are looked for.
        if self.search.is_none() || !stops.is_empty() {
            let prompt = &first.main.ids;
            first.streamer = Some(Streamer::new(&engine.tokenizer, stops, prompt)?);
        }
        Ok(())
    }

    /// Chooses the prompt's last token again, once the scores are there.
    fn heal(&mut self, engine: &Shared, plan: &Plan) -> Result<()> {
        let first = &mut self.rows[0];
        let Some(healing) = self.healing.take_if(|_| first.is_evaluated()) else {
            return Ok(());
        };
        let (tail, token) = (healing.tail(), healing.choose(&first.main.logits));
        let before = engine
            .tokenizer
            .decode(&[&first.main.ids[..], &[tail]].concat(), true)?;
        first
            .main
            .go_on(first.main.ids.len(), token, plan.tactics.use_cache);
        first.main.prompt_length = first.main.ids.len();
        first.main.logits.clear();
        // The scores after a negative prompt of the caller's are those that the answer begins with.
        if let Some(guide) = first.guide.as_mut().filter(|_| self.leads_from_last) {
            guide.go_on(0, token, false);
            guide.logits.clear();
        }
        let after = engine.tokenizer.decode(&first.main.ids, true)?;
        self.healed = after.strip_prefix(before.as_str()).unwrap_or("").to_owned();
        first.text = self.healed.clone();
        self.read_along(engine, plan)
    }

    /// Every track that runs.
    pub fn tracks(&mut self) -> impl Iterator<Item = &mut Track> {
        let tracks = self.rows.iter_mut().flat_map(Sequence::tracks);
        tracks.filter(|track| track.table.is_some())
    }

    /// Whether no sequence goes on.
    pub fn is_over(&self) -> bool {
        self.rows.iter().all(|row| row.reason.is_some())
    }

    /// Where a draft may go on from: only where one sequence waits for its next token alone.
    pub fn start(&self, engine: &Shared) -> Option<Start<'_>> {
        let [row] = &self.rows[..] else { return None };
        let main = &row.main;
        // A prompt whose last token may change is not gone on from.
        let fresh = self.healing.is_none()
            && main.table.as_ref()?.length() + 1 >= main.ids.len()
            && main.draft == 0;
        // One more token follows the draft, which must not make the sequence long: what is chosen after a part
        // of it would be chosen under other angles than without it.
        let room = main.prompt_length + self.answer - main.ids.len() - 1;
        let room = room.min(LongAngles::room(engine.long, main.ids.len()));
        (fresh && main.logits.is_empty()).then_some(Start {
            ids: &main.ids,
            prompt_length: main.prompt_length,
            room,
        })
    }

    /// Lets the next forward pass verify `draft`.
    pub fn propose(&mut self, draft: Draft) {
        self.rows[0].propose(&draft.tokens);
        self.draft = draft;
    }

    /// Runs the processors on all rows of scores that are complete. `buffers` are memory.
    pub async fn process(
        &mut self,
        turn: &Turn<'_>,
        scratch: &mut Scratch,
        buffers: &mut Vec<Vec<f32>>,
    ) -> Result<()> {
        let (engine, plan) = (turn.engine, turn.plan);
        if self.healing.is_some() {
            return self.heal(engine, plan);
        }
        let searching = self.search.is_some();
        // What judges all sequences of the prompt together must see all of them, whatever fits into a step.
        let restricts = |stage: &Stage| matches!(stage.work, Work::AllowedTokens);
        let together = searching || plan.processors.iter().any(restricts);
        let mut running = self.rows.iter().filter(|row| row.reason.is_none());
        if together && !running.all(Sequence::is_evaluated) {
            return Ok(());
        }
        if self.rows[0].is_evaluated() {
            self.branch_out();
        }
        let first = self.prompt * self.branches;
        let rows = self.rows.iter().enumerate();
        let complete = rows.filter(|(_, row)| row.is_evaluated());
        let places = complete
            .flat_map(|(place, row)| (row.processed..=row.main.draft).map(move |at| (place, at)));
        let places: Vec<(usize, usize)> = places.collect();
        buffers.resize_with(buffers.len().max(places.len()), Vec::new);
        // Copies change, so that a run which is dropped while it waits for the caller's functions can be
        // begun again.
        let mut scored = Vec::with_capacity(places.len());
        for (scores, &(place, at)) in buffers.iter_mut().zip(&places) {
            let Sequence { main, guide, .. } = &self.rows[place];
            let range = main.row(at);
            scores.clear();
            scores.extend_from_slice(&main.logits[range.clone()]);
            if searching {
                log_softmax(scores);
            }
            let context = Context {
                ids: &main.ids[..main.length() + at],
                prompt_length: main.prompt_length,
                sequence: first + place,
                unconditional: guide.as_ref().map(|guide| &guide.logits[range]),
            };
            scored.push(ScoredRow { context, scores });
        }
        let stages = &plan.processors;
        processors::run(stages, self.prompt, &mut scored, turn.callbacks, scratch).await?;
        for (scores, (place, at)) in buffers.iter().zip(places) {
            let row = &mut self.rows[place];
            let range = row.main.row(at);
            if plan.tactics.output_logits {
                row.raw.extend_from_slice(&row.main.logits[range.clone()]);
            }
            row.main.logits[range].copy_from_slice(scores);
            row.processed += 1;
        }
        Ok(())
    }

    /// Chooses what follows wherever the scores are complete; returns how many tokens of answers that makes. A
    /// search makes them once it is over, all but the first of each answer.
    pub async fn choose(&mut self, turn: &mut Turn<'_>) -> Result<usize> {
        if self.search.is_some() {
            return self.branch(turn).await;
        }
        let mut chosen = 0;
        for at in 0..self.rows.len() {
            if self.rows[at].is_ready() {
                let verdicts = self.judge(at, turn).await?;
                chosen += self.append(at, turn, &verdicts)?;
            }
        }
        Ok(chosen)
    }

    /// Ends what has not ended: for a reason, or because of an error. Returns what a search found by then.
    pub fn end(
        &mut self,
        reason: Option<StopReason>,
        engine: &Shared,
        plan: &Plan,
    ) -> Result<Found> {
        let before = self.found.len();
        if let Some(reason) = reason {
            self.conclude(reason, engine, plan)?;
        }
        let found = Found::of(&self.found[before..]);
        for sequence in self.rows.iter_mut().filter(|row| row.reason.is_none()) {
            let text = sequence.end(reason)?;
            sequence.text.push_str(&text);
        }
        Ok(found)
    }

    /// The answers, as many as were wanted where there are that many.
    pub fn answers(&self) -> Vec<Answer> {
        if !self.found.is_empty() {
            return self.found.clone();
        }
        // Ended before the prompt was evaluated, all answers are the same.
        let rows = (0..self.answers).map(|at| &self.rows[at.min(self.rows.len() - 1)]);
        rows.map(Answer::of).collect()
    }

    /// Why the answers ended that have ended.
    pub fn reasons(&self) -> Vec<StopReason> {
        match self.found.is_empty() {
            true => self.rows.iter().filter_map(|row| row.reason).collect(),
            false => self.found.iter().map(|answer| answer.reason).collect(),
        }
    }

    /// The recorded scores.
    pub fn record(&mut self) -> Record {
        std::mem::take(&mut self.record)
    }

    /// The token that follows the first `step` tokens of the draft of the sequence at place `at`, and
    /// whether the draft has it there.
    fn pick(&self, at: usize, step: usize, plan: &Plan) -> Result<(u32, bool)> {
        let sequence = &self.rows[at];
        let main = &sequence.main;
        let scores = &main.logits[main.row(step)];
        let proposed = (step < main.draft).then(|| main.ids[main.length() + step]);
        let draw = Draw {
            sequence: (self.prompt * self.answers + at) as u32,
            step: (sequence.new_tokens() + step) as u32,
        };
        let token = match (proposed, self.draft.distributions.get(step)) {
            (Some(proposed), Some(q)) => {
                let weight = self.draft.weight.unwrap_or(1.0);
                plan.selection.verify(scores, proposed, q, weight, draw)?
            }
            _ => plan.selection.select(scores, draw)?,
        };
        Ok((token, proposed == Some(token)))
    }

    /// For each token that the sequence at place `at` goes on with, the caller's criterion that ends it
    /// there. Nothing changes, so this may be dropped and begun again.
    async fn judge(&self, at: usize, turn: &Turn<'_>) -> Result<Vec<Option<usize>>> {
        let mut verdicts = Vec::new();
        let main = &self.rows[at].main;
        for step in 0..=main.draft {
            if turn.callbacks.is_none() {
                break;
            }
            let (token, right) = self.pick(at, step, turn.plan)?;
            let ids = &main.ids[..main.length() + step];
            let scores = &main.logits[main.row(step)];
            let number = self.prompt * self.answers + at;
            let verdict = turn.judge(number, ids, token, scores).await?;
            verdicts.push(verdict);
            if !right || verdict.is_some() || turn.plan.eos_token_ids().contains(&token) {
                break;
            }
        }
        Ok(verdicts)
    }

    /// Appends the next tokens of the sequence at place `at`, of a draft as many as are right, and one, as far
    /// as none ends it; returns how many. The caller's criteria have given their `verdicts` on them.
    fn append(
        &mut self,
        at: usize,
        turn: &mut Turn<'_>,
        verdicts: &[Option<usize>],
    ) -> Result<usize> {
        let tactics = &turn.plan.tactics;
        let draft = self.rows[at].main.draft;
        let (length, before) = (self.rows[at].main.length(), self.rows[at].new_tokens());
        let (mut accepted, mut appended) = (0, 0);
        for step in 0..=draft {
            let (token, right) = self.pick(at, step, turn.plan)?;
            let sequence = &mut self.rows[at];
            let range = sequence.main.row(step);
            let scores = &sequence.main.logits[range.clone()];
            accepted += usize::from(right);
            appended += 1;
            self.record
                .add(tactics, at, scores, sequence.raw.get(range));
            if tactics.output_scores {
                sequence.transition_scores.push(scores[token as usize]);
            }
            let best = tactics.top_logprobs;
            let score = best.map(|top| answer::token_score(scores, token, top));
            sequence.token_scores.extend(score.clone());
            let is_end = turn.plan.eos_token_ids().contains(&token);
            let mut shown = sequence.show(token, is_end)?;
            turn.count_tokens(1);
            let progress = Progress {
                token,
                new_tokens: before + step + 1,
                length: length + step + 1,
                stop_string: shown.stopped,
                seconds: turn.seconds,
                function: verdicts.get(step).copied().flatten(),
            };
            let reason = turn.reason(&progress);
            if !right || reason.is_some() {
                sequence.go_on(step, token, tactics.use_cache);
            }
            if reason.is_some() {
                shown.text.push_str(&sequence.end(reason)?);
            }
            sequence.text.push_str(&shown.text);
            if before + step == 0 {
                shown.text.insert_str(0, &self.healed);
            }
            turn.events.push_back(Event {
                sequence: self.prompt * self.answers + at,
                token_id: token,
                text: shown.text,
                score,
            });
            if !right || reason.is_some() {
                break;
            }
        }
        turn.speculation.add(draft, accepted);
        Ok(appended)
    }
}
