//! Rows side by side: the order of `lib/stripes.wgsl`, which rows that arrive one after another are put into.

use std::collections::HashMap;

/// The sizes of a part of a weight.
pub(super) struct Shape {
    /// Rows of a stripe; the last may have fewer.
    pub rows: usize,
    /// Words of a row, whole vectors of four.
    pub row_words: usize,
    /// Words of the whole part.
    pub part_words: usize,
}

/// A stripe in the making, its rows one after another.
pub(super) struct Stripe {
    words: Vec<u32>,
    missing: usize,
}

impl Shape {
    /// Sends `words`, which begin at word `at` of the part, as stripes: `send` gets a place in the part and what
    /// is to be there. A stripe that has not wholly come waits in `partial` under its `key`.
    pub fn write<K: Eq + std::hash::Hash>(
        &self,
        at: usize,
        words: &[u32],
        partial: &mut HashMap<K, Stripe>,
        key: impl Fn(usize) -> K,
        mut send: impl FnMut(usize, &[u32]),
    ) {
        let stripe_words = self.rows * self.row_words;
        // Whole stripes are sent together: a write to the device is dear.
        let (mut first, mut whole) = (0, Vec::new());
        let (mut at, mut rest) = (at, words);
        while !rest.is_empty() {
            let number = at / stripe_words;
            let start = number * stripe_words;
            let length = stripe_words.min(self.part_words - start);
            let (now, later) = rest.split_at((start + length - at).min(rest.len()));
            if now.len() == length {
                if whole.is_empty() {
                    first = start;
                }
                self.interleave(now, &mut whole);
            } else {
                let stripe = partial.entry(key(number)).or_insert_with(|| Stripe {
                    words: vec![0; length],
                    missing: length,
                });
                stripe.words[at - start..][..now.len()].copy_from_slice(now);
                stripe.missing -= now.len();
                if stripe.missing == 0 {
                    let mut done = Vec::with_capacity(stripe_words);
                    self.interleave(&stripe.words, &mut done);
                    send(start, &done);
                    partial.remove(&key(number));
                }
            }
            at += now.len();
            rest = later;
        }
        if !whole.is_empty() {
            send(first, &whole);
        }
    }

    /// Appends a stripe of rows: the first vectors of all rows, then the second, and so on. Rows that a last
    /// stripe lacks are zero.
    fn interleave(&self, rows: &[u32], out: &mut Vec<u32>) {
        for vector in (0..self.row_words).step_by(4) {
            for row in 0..self.rows {
                let at = row * self.row_words + vector;
                out.extend_from_slice(rows.get(at..at + 4).unwrap_or(&[0; 4]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_rows_are_cut_they_lie_side_by_side() {
        // Five rows of eight words, two side by side.
        let shape = Shape {
            rows: 2,
            row_words: 8,
            part_words: 40,
        };
        let words: Vec<u32> = (1..=40).collect();
        let at = |row: usize, vector: usize| &words[row * 8 + vector * 4..][..4];
        let zero: &[u32] = &[0; 4];
        let expected = [
            [at(0, 0), at(1, 0), at(0, 1), at(1, 1)],
            [at(2, 0), at(3, 0), at(2, 1), at(3, 1)],
            [at(4, 0), zero, at(4, 1), zero],
        ]
        .concat()
        .concat();
        for cut in 1..=40 {
            let mut found = vec![9; 48];
            let mut partial = HashMap::new();
            for (i, piece) in words.chunks(cut).enumerate() {
                shape.write(
                    i * cut,
                    piece,
                    &mut partial,
                    |stripe| stripe,
                    |at, words| {
                        found[at..at + words.len()].copy_from_slice(words);
                    },
                );
            }
            assert_eq!(found, expected, "{cut} words at a time");
            assert!(partial.is_empty());
        }
    }
}
