//! What a group does where its tokens are chosen on the device: there are no drafts. Sequences are called by
//! their places.

use super::{Event, Group, Turn};
use crate::{
    error::{Error, Result},
    exec::sample::{Choice, Pick, Row},
    generation::{cache::PageTable, selection, sequence::TokenScore, stopping::Progress},
};

impl Group {
    /// The places of the sequences that run.
    pub fn running(&self) -> impl Iterator<Item = usize> {
        let rows = self.rows.iter().enumerate();
        let running = rows.filter(|(_, row)| row.main.table.is_some());
        running.map(|(place, _)| place)
    }

    /// Whether a sequence has ended.
    pub fn has_ended(&self, place: usize) -> bool {
        self.rows[place].reason.is_some()
    }

    /// Tokens that may still follow those of a sequence that are known.
    pub fn left(&self, place: usize) -> usize {
        self.answer.saturating_sub(self.rows[place].new_tokens())
    }

    /// The last token of a sequence that is known, and its pages.
    pub fn next_row(&mut self, place: usize) -> Result<(u32, &mut PageTable)> {
        let main = &mut self.rows[place].main;
        let (last, table) = (main.ids.last(), main.table.as_mut());
        last.copied()
            .zip(table)
            .ok_or_else(|| Error::internal("a sequence that has ended goes on"))
    }

    /// A sequence for the device, with `in_flight` tokens that are not known yet.
    pub fn row(&self, place: usize, in_flight: usize) -> Row<'_> {
        let main = &self.rows[place].main;
        Row {
            sequence: (self.prompt * self.branches + place) as u32,
            ids: &main.ids,
            prompt_length: main.prompt_length,
            new_tokens: self.rows[place].new_tokens() + in_flight,
            limit: main.prompt_length + self.answer,
        }
    }

    /// Whether `rows` more rows evaluate all of a sequence.
    pub fn completes(&self, place: usize, rows: usize) -> bool {
        let main = &self.rows[place].main;
        let stored = main.table.as_ref().map_or(0, PageTable::length);
        rows > 0 && stored + rows == main.ids.len()
    }

    /// Gives back what steps that ran ahead have filled.
    pub fn forget_ahead(&mut self) {
        for track in self.tracks() {
            let known = track.ids.len() - 1;
            if let Some(table) = &mut track.table {
                table.rewind(known);
            }
        }
    }

    /// Takes what a beam may go on with, in place of its scores.
    pub fn list(&mut self, place: usize, pick: Pick) -> Result<()> {
        let beam = &mut self.rows[place];
        if pick.choice == Choice::Incomparable {
            return Err(selection::incomparable());
        }
        beam.listed = pick.best;
        beam.listed.sort_unstable_by_key(|&(id, _)| id);
        beam.processed = 1;
        Ok(())
    }

    /// Appends a token that was chosen on the device to a sequence.
    pub fn take(&mut self, place: usize, pick: &Pick, turn: &mut Turn<'_>) -> Result<()> {
        let token = match pick.choice {
            Choice::Token(token) => token,
            Choice::Incomparable => return Err(selection::incomparable()),
            Choice::NothingLeft => return Err(selection::nothing_left()),
        };
        let sequence = &mut self.rows[place];
        let top = turn.plan.tactics.top_logprobs;
        let score = top.map(|top| token_score(pick, top));
        sequence.token_scores.extend(score.clone());
        let is_end = turn.plan.eos_token_ids().contains(&token);
        let mut shown = sequence.show(token, is_end)?;
        turn.count_tokens(1);
        sequence.main.ids.push(token);
        let progress = Progress {
            token,
            new_tokens: sequence.new_tokens(),
            length: sequence.main.ids.len(),
            stop_string: shown.stopped,
            seconds: turn.seconds,
            function: None,
        };
        if let Some(reason) = turn.reason(&progress) {
            // Steps that ran ahead have filled pages that nobody wants.
            let evaluated = sequence.main.ids.len() - 1;
            if let Some(table) = &mut sequence.main.table {
                table.rewind(evaluated);
            }
            shown.text.push_str(&sequence.end(Some(reason))?);
        }
        sequence.text.push_str(&shown.text);
        turn.events.push_back(Event {
            sequence: self.prompt * self.answers + place,
            token_id: token,
            text: shown.text,
            score,
        });
        Ok(())
    }
}

/// The log-probabilities of a choice and of the `top` best tokens.
fn token_score(pick: &Pick, top: usize) -> TokenScore {
    let logprob = |score: f32| (f64::from(score) - f64::from(pick.total)) as f32;
    let best = pick.best.iter().take(top);
    TokenScore {
        logprob: logprob(pick.score),
        top: best.map(|&(id, score)| (id, logprob(score))).collect(),
    }
}
