//! How the answers to a prompt go their own ways, once it is evaluated.

use super::{Group, Sequence};

impl Group {
    /// How many sequences the next choice is for: before the prompt is evaluated, all answers.
    pub fn copies(&self) -> usize {
        match (&self.search, self.rows.len()) {
            (None, 1) => self.answers,
            _ => 1,
        }
    }

    /// Lets all answers go their own ways, once the prompt is evaluated.
    pub fn branch_out(&mut self) {
        let forks = (1..self.copies()).map(|_| self.rows[0].fork());
        let forks: Vec<Sequence> = forks.collect();
        self.rows.extend(forks);
    }
}
