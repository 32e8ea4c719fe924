//! Beam search over the sequences of a prompt: pages follow the beams, and what is final is shown.

use super::{
    super::{
        engine::Shared,
        output::Event,
        plan::{Home, Plan},
        selection::Continuation,
        sequence::{Sequence, Track},
        stopping::StopReason,
        streamer::Streamer,
    },
    Answer, Found, Group, Turn, answer,
};
use crate::error::Result;

impl Group {
    /// Takes a step of the search, once the scores of all beams are there; returns what
    /// [`choose`](Group::choose) does: nothing before the search is over.
    pub(super) async fn branch(&mut self, turn: &mut Turn<'_>) -> Result<usize> {
        let ready = self.rows.iter().all(Sequence::is_ready);
        let Some(search) = self.search.as_mut().filter(|_| ready) else {
            return Ok(0);
        };
        let tactics = &turn.plan.tactics;
        let rows = &self.rows;
        // Before the first step all beams are the prompt.
        let row = |beam: usize| &rows[beam.min(rows.len() - 1)];
        let beams = search.settings().beams;
        let going = search.beams();
        let beams_going = 0..going;
        let found = match turn.plan.home {
            Home::Device => {
                let lists = beams_going.map(|beam| &row(beam).listed[..]);
                search.continuations_of(lists, self.prompt)?
            }
            Home::Host(_) => {
                let scores = beams_going.map(|beam| &row(beam).main.logits[..]);
                search.continuations(scores, self.prompt)?
            }
        };
        let mut ends = Vec::with_capacity(found.len());
        for &Continuation { beam, token, .. } in &found {
            let parent = row(beam);
            let Track { ids, logits, .. } = &parent.main;
            let number = self.prompt * beams + beam;
            let function = turn.judge(number, ids, token, logits).await?;
            ends.push(turn.extend(parent, token, function)?);
        }
        for beam in 0..going {
            let sequence = row(beam);
            let raw = tactics.output_logits.then_some(&sequence.raw[..]);
            let scores = &sequence.main.logits;
            self.record.add(tactics, beam, scores, raw);
        }
        let extended = |rank: usize| {
            let continuation = &found[rank];
            let (parent, token) = (row(continuation.beam), continuation.token);
            let mut answer = Answer::of(parent);
            answer.ids.push(token);
            answer
                .beam_indices
                .push(self.prompt * beams + continuation.beam);
            let scores = &parent.main.logits;
            if tactics.output_scores {
                answer.transition_scores.push(scores[token as usize]);
            }
            let top = tactics.top_logprobs;
            let score = top.map(|top| answer::token_score(scores, token, top));
            answer.token_scores.extend(score);
            answer
        };
        let result = |rank: usize| Answer {
            reason: ends[rank].0.unwrap_or(StopReason::Aborted),
            ..extended(rank)
        };
        let going = search.advance(&found, |rank| ends[rank].0.is_some(), result);
        if search.is_over() {
            return self.finish(turn);
        }
        let parents = going
            .iter()
            .map(|&rank| found[rank].beam.min(rows.len() - 1));
        let parents: Vec<usize> = parents.collect();
        let answers: Vec<Answer> = going.iter().map(|&rank| extended(rank)).collect();
        self.rows = reorder(std::mem::take(&mut self.rows), &parents);
        for ((sequence, answer), rank) in self.rows.iter_mut().zip(answers).zip(going) {
            sequence.go_on(0, found[rank].token, tactics.use_cache);
            sequence.streamer = ends[rank].1.take();
            sequence.beam_indices = answer.beam_indices;
            sequence.token_scores = answer.token_scores;
            sequence.transition_scores = answer.transition_scores;
        }
        Ok(0)
    }

    /// The search is over: its results are final and are shown.
    fn finish(&mut self, turn: &mut Turn) -> Result<usize> {
        let texts = self.conclude(StopReason::Aborted, turn.engine, turn.plan)?;
        for (at, (answer, texts)) in self.found.iter().zip(texts).enumerate() {
            turn.count_tokens(answer.ids.len());
            for (token, (&token_id, text)) in answer.ids.iter().zip(texts).enumerate() {
                turn.events.push_back(Event {
                    sequence: self.prompt * self.answers + at,
                    token_id,
                    text,
                    score: answer.token_scores.get(token).cloned(),
                });
            }
        }
        Ok(Found::of(&self.found).decoded)
    }

    /// Keeps what the search found, if there is one. Beams that were still going on become answers only
    /// where results are missing, and end for `reason`. Returns the texts of the answers' tokens.
    pub(super) fn conclude(
        &mut self,
        reason: StopReason,
        engine: &Shared,
        plan: &Plan,
    ) -> Result<Vec<Vec<String>>> {
        let Some(search) = self.search.take() else {
            return Ok(Vec::new());
        };
        // Before the first step all beams are the prompt.
        let beam = |at: usize| Answer {
            reason,
            ..Answer::of(&self.rows[at.min(self.rows.len() - 1)])
        };
        let prompt = &self.rows[0].main;
        let prompt = &prompt.ids[..prompt.prompt_length];
        let mut texts = Vec::new();
        for (score, mut answer) in search.finish(self.answers, beam) {
            answer.score = Some(score);
            let mut pieces = read(&answer.ids, prompt, engine, plan)?;
            if let Some(first) = pieces.first_mut() {
                first.insert_str(0, &self.healed);
            }
            answer.text = pieces.concat();
            texts.push(pieces);
            self.found.push(answer);
        }
        // Pages that nobody shares can be kept for a prompt that begins alike.
        self.rows.truncate(1);
        for sequence in &mut self.rows {
            sequence.streamer = None;
            sequence.end(Some(reason))?;
        }
        Ok(texts)
    }
}

/// The beams that go on from `rows`: each from the one at its place in `parents`. Beams that nothing
/// goes on from make room first.
fn reorder(mut rows: Vec<Sequence>, parents: &[usize]) -> Vec<Sequence> {
    rows.iter_mut().for_each(Sequence::forget_scores);
    let mut rows: Vec<Option<Sequence>> = rows.into_iter().map(Some).collect();
    for (at, row) in rows.iter_mut().enumerate() {
        if !parents.contains(&at)
            && let Some(row) = row.take()
        {
            row.replace();
        }
    }
    let mut beams = Vec::with_capacity(parents.len());
    for (at, parent) in parents.iter().enumerate() {
        let last = !parents[at + 1..].contains(parent);
        let beam = match last {
            true => rows[*parent].take(),
            false => rows[*parent].as_ref().map(Sequence::fork),
        };
        beams.extend(beam);
    }
    beams
}

/// The text of each of `ids`, the answer to `prompt`. They join to its text.
fn read(ids: &[u32], prompt: &[u32], engine: &Shared, plan: &Plan) -> Result<Vec<String>> {
    let mut streamer = Streamer::new(&engine.tokenizer, plan.stop_strings(), prompt)?;
    let mut texts = Vec::with_capacity(ids.len());
    for &id in ids {
        // An end token has no text, whatever it stands for elsewhere.
        texts.push(match plan.eos_token_ids().contains(&id) {
            true => String::new(),
            false => streamer.push(id)?.text,
        });
    }
    if let Some(last) = texts.last_mut() {
        last.push_str(&streamer.finish()?);
    }
    Ok(texts)
}
