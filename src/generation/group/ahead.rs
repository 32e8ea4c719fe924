//! What a group does where its tokens are chosen on the device: there is one sequence, without drafts.

use super::{Event, Group, Turn};
use crate::{
    error::{Error, Result},
    exec::sample::Row,
    generation::{cache::PageTable, stopping::Progress},
};

impl Group {
    /// Tokens that may still follow those that are known.
    pub fn left(&self) -> usize {
        self.answer.saturating_sub(self.rows[0].new_tokens())
    }

    /// The last token that is known, and the pages.
    pub fn next_row(&mut self) -> Result<(u32, &mut PageTable)> {
        let main = &mut self.rows[0].main;
        let (last, table) = (main.ids.last(), main.table.as_mut());
        last.copied()
            .zip(table)
            .ok_or_else(|| Error::internal("a sequence that has ended goes on"))
    }

    /// The sequence for the device, with `in_flight` tokens that are not known yet.
    pub fn row(&self, in_flight: usize) -> Row<'_> {
        let main = &self.rows[0].main;
        Row {
            sequence: self.prompt as u32,
            ids: &main.ids,
            prompt_length: main.prompt_length,
            new_tokens: self.rows[0].new_tokens() + in_flight,
            limit: main.prompt_length + self.answer,
        }
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

    /// Appends a token that was chosen on the device.
    pub fn take(&mut self, token: u32, turn: &mut Turn<'_>) -> Result<()> {
        let sequence = &mut self.rows[0];
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
            sequence: self.prompt,
            token_id: token,
            text: shown.text,
            score: None,
        });
        Ok(())
    }
}
