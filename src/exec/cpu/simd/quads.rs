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

/// Whether the instruction is one of the machine's, too. Where there is none, it is put together of three, and bytes
/// that it is not made for tell: their products are cut to 16 bits on the way.
pub fn bytes_are_fast() -> bool {
    let [bytes, factors] = std::hint::black_box([[255; 16], [127; 16]]);
    let factors = u32::from_le_bytes([factors[0]; 4]);
    let sums = I32x4::splat(0).add_dot(Bytes::load(&bytes), factors);
    sums.lanes()[0] != 2 * i32::from(i16::MAX)
}

impl Quad for Eights {
    type Rows = Bytes;
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
    fn steps(wide: bool) -> usize {
        // Only bytes below 128 have a product that is the same everywhere.
        if wide { 2 } else { 1 }
    }

    #[inline(always)]
    fn rows(bytes: Bytes, wide: bool, step: usize) -> Bytes {
        match (wide, step) {
            (false, _) => bytes,
            (true, 0) => bytes.high_nibbles(),
            (true, _) => bytes.low_nibbles(),
        }
    }

    #[inline(always)]
    fn dot(&self, sum: I32x4, rows: Bytes, wide: bool, step: usize) -> I32x4 {
        if wide && step == 0 {
            return sum.add(I32x4::splat(0).add_dot(rows, self.0).shl(4));
        }
        sum.add_dot(rows, self.0)
    }

    #[inline(always)]
    fn total(sum: I32x4) -> I32x4 {
        sum
    }
}

impl Quad for Sixteens {
    type Rows = Bytes;
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
    fn steps(_: bool) -> usize {
        1
    }

    #[inline(always)]
    fn rows(bytes: Bytes, _: bool, _: usize) -> Bytes {
        bytes
    }

    #[inline(always)]
    fn dot(&self, [high, low]: Self::Sum, rows: Bytes, wide: bool, step: usize) -> Self::Sum {
        if wide {
            let words = |low, step| {
                self.words
                    .dot(low, Words::rows(rows, wide, step), wide, step)
            };
            return [high, words(words(low, 0), 1)];
        }
        let bytes = |sum, quad: &Eights| quad.dot(sum, rows, wide, step);
        [bytes(high, &self.high), bytes(low, &self.low)]
    }

    #[inline(always)]
    fn total([high, low]: Self::Sum) -> I32x4 {
        high.shl(8).add(low)
    }
}
