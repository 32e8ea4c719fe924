//! Models whose long sequences take other angles than short ones, for all of their positions.
//!
//! Keys of one kind are of no use to the other: a sequence that becomes long is evaluated again from its
//! beginning, as Hugging Face's Phi-3 does.

/// Which angles a sequence takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongAngles {
    /// The most ids of a short sequence.
    pub after: usize,
    /// The row of the tables of angles that position 0 of a long sequence takes; that of a short one is 0.
    pub first: u32,
}

impl LongAngles {
    /// The row that position 0 of a sequence of `ids` ids takes.
    pub fn first_row(long: Option<Self>, ids: usize) -> u32 {
        let long = long.filter(|long| ids > long.after);
        long.map_or(0, |long| long.first)
    }

    /// How many ids may follow `ids` ids before the sequence takes other angles.
    pub fn room(long: Option<Self>, ids: usize) -> usize {
        let border = long.and_then(|long| long.after.checked_sub(ids));
        border.unwrap_or(usize::MAX)
    }

    /// Whether a sequence of `ids` ids is short and, with `capacity` positions, may become long.
    pub fn begin_within(self, ids: usize, capacity: usize) -> bool {
        (ids..=capacity).contains(&self.after)
    }
}
