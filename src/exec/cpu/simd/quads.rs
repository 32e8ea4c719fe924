//! Activations for the relaxed instruction that multiplies bytes: signed ones with others below 128.

use super::{Bytes, I32x4, Quad, Words};

/// Four activations of 8 bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Eights(u32);

/// Four activations of 16 bits, once as two bytes with signs each, `256 · high + low`, and once as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sixteens {
    high: Eights,
    low: Eights,
    words: Words,
}

impl Quad for Eights {
    type Sum = I32x4;
    const LEAN: bool = true;

    #[inline(always)]
    fn new(values: I32x4) -> Self {
        Self(values.last_bytes())
    }

    #[inline(always)]
    fn sum(first: i32) -> I32x4 {
        I32x4::splat(first)
    }

    #[inline(always)]
    fn dot(&self, sum: I32x4, rows: Bytes) -> I32x4 {
        sum.add_dot(rows, self.0)
    }

    #[inline(always)]
    fn dot_wide(&self, sum: I32x4, rows: Bytes) -> I32x4 {
        // Only bytes below 128 have a product that is the same everywhere.
        let high = self.dot(I32x4::splat(0), rows.high_nibbles());
        self.dot(sum.add(high.shl(4)), rows.low_nibbles())
    }

    #[inline(always)]
    fn total(sum: I32x4) -> I32x4 {
        sum
    }
}

impl Quad for Sixteens {
    /// Of the high bytes and of the low ones.
    type Sum = [I32x4; 2];

    #[inline(always)]
    fn new(values: I32x4) -> Self {
        // What is left of a value when its low byte is taken as one with a sign.
        let rest = values.add(I32x4::splat(128));
        Self {
            high: Eights(rest.second_bytes()),
            low: Eights(values.last_bytes()),
            words: Words(values.word_pairs()),
        }
    }

    #[inline(always)]
    fn sum(first: i32) -> Self::Sum {
        [I32x4::splat(0), I32x4::splat(first)]
    }

    #[inline(always)]
    fn dot(&self, [high, low]: Self::Sum, rows: Bytes) -> Self::Sum {
        [self.high.dot(high, rows), self.low.dot(low, rows)]
    }

    #[inline(always)]
    fn dot_wide(&self, [high, low]: Self::Sum, rows: Bytes) -> Self::Sum {
        [high, self.words.dot_wide(low, rows)]
    }

    #[inline(always)]
    fn total([high, low]: Self::Sum) -> I32x4 {
        high.shl(8).add(low)
    }
}
