//! How much longer the steps of a file may make a text.
//!
//! A replacement is as long as its file likes, and the next step replaces what it put there: eight steps that write ten
//! letters for one make a hundred million of a single letter, out of a file of a kilobyte.

use ::tokenizers::normalizers::replace::ReplacePattern;

use super::node::Node;
use crate::error::Result;

/// The most times as long; the steps of real files come to less than ten.
const MOST: usize = 256;

/// What the steps so far come to at worst.
pub(super) struct Growth(usize);

impl Default for Growth {
    fn default() -> Self {
        Self(1)
    }
}

impl Growth {
    /// Counts a step that may make a text `times` as long.
    ///
    /// # Errors
    /// `Unsupported` where that is too long, together with the steps before it.
    pub fn times(&mut self, node: &Node, times: usize) -> Result<()> {
        self.0 = self.0.saturating_mul(times.max(1));
        if self.0 <= MOST {
            return Ok(());
        }
        Err(node.unsupported(format!(
            "up to here a text may become {} times as long, supported are {MOST}",
            self.0
        )))
    }

    /// Counts the replacement of `pattern` with `content`. A regular expression may match nothing, beside every
    /// character.
    pub fn replace(&mut self, node: &Node, pattern: &ReplacePattern, content: &str) -> Result<()> {
        let times = match pattern {
            ReplacePattern::String(text) => content.len().div_ceil(text.len()),
            ReplacePattern::Regex(_) => content.len() + 1,
        };
        self.times(node, times)
    }
}
