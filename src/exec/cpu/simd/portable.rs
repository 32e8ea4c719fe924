//! Vectors as arrays: the same results where there are no vector instructions to name.

/// Four f32.
#[derive(Debug, Clone, Copy)]
pub struct F32x4([f32; 4]);

/// Four i32.
#[derive(Debug, Clone, Copy)]
pub struct I32x4([i32; 4]);

/// Sixteen bytes.
#[derive(Debug, Clone, Copy)]
pub struct Bytes([u8; 16]);

impl F32x4 {
    #[inline(always)]
    fn each(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }

    /// The same number four times.
    #[inline(always)]
    pub fn splat(value: f32) -> Self {
        Self([value; 4])
    }

    /// Reads from memory.
    #[inline(always)]
    pub fn load(from: &[f32; 4]) -> Self {
        Self(*from)
    }

    /// Writes to memory.
    #[inline(always)]
    pub fn store(self, to: &mut [f32; 4]) {
        *to = self.0;
    }

    /// The four numbers.
    #[inline(always)]
    pub fn lanes(self) -> [f32; 4] {
        self.0
    }

    #[inline(always)]
    pub(super) fn plus(self, other: Self) -> Self {
        self.each(other, |a, b| a + b)
    }

    #[inline(always)]
    pub(super) fn minus(self, other: Self) -> Self {
        self.each(other, |a, b| a - b)
    }

    #[inline(always)]
    pub(super) fn times(self, other: Self) -> Self {
        self.each(other, |a, b| a * b)
    }

    #[inline(always)]
    pub(super) fn over(self, other: Self) -> Self {
        self.each(other, |a, b| a / b)
    }

    /// `self · factor + add`, rounded once or twice.
    #[inline(always)]
    pub fn mul_add(self, factor: Self, add: Self) -> Self {
        self * factor + add
    }

    /// The larger of the two; NaN stays NaN.
    #[inline(always)]
    pub fn at_least(self, least: Self) -> Self {
        self.each(least, |a, b| if a < b { b } else { a })
    }

    /// The smaller of the two; NaN stays NaN.
    #[inline(always)]
    pub fn at_most(self, most: Self) -> Self {
        self.each(most, |a, b| if b < a { b } else { a })
    }

    /// The bits of the four.
    #[inline(always)]
    pub fn as_bits(self) -> I32x4 {
        I32x4(self.0.map(|v| v.to_bits() as i32))
    }
}

impl I32x4 {
    #[inline(always)]
    fn each(self, other: Self, f: impl Fn(i32, i32) -> i32) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }

    /// The same number four times.
    #[inline(always)]
    pub fn splat(value: i32) -> Self {
        Self([value; 4])
    }

    /// The four numbers.
    #[inline(always)]
    pub fn lanes(self) -> [i32; 4] {
        self.0
    }

    /// The last bits of the first and third number in one word, 16 of each, and of the others.
    #[inline(always)]
    pub fn word_pairs(self) -> [u32; 2] {
        let [a, b, c, d] = self.lanes();
        let pair = |low: i32, high: i32| u32::from(low as u16) | (high as u32) << 16;
        [pair(a, c), pair(b, d)]
    }

    /// The sum, which wraps.
    #[inline(always)]
    pub fn add(self, other: Self) -> Self {
        self.each(other, i32::wrapping_add)
    }

    /// Bits that both have.
    #[inline(always)]
    pub fn and(self, other: Self) -> Self {
        self.each(other, |a, b| a & b)
    }

    /// Bits that one of them has.
    #[inline(always)]
    pub fn or(self, other: Self) -> Self {
        self.each(other, |a, b| a | b)
    }

    /// All bits where the two are equal, none elsewhere.
    #[inline(always)]
    pub fn equal(self, other: Self) -> Self {
        self.each(other, |a, b| -i32::from(a == b))
    }

    /// Shifted to the left.
    #[inline(always)]
    pub fn shl(self, bits: u32) -> Self {
        Self(self.0.map(|v| v << bits))
    }

    /// For each lane the sum of the products of its two 16-bit words with the two of `factors`, all with signs.
    #[inline(always)]
    pub fn dot_pairs(self, factors: u32) -> Self {
        let pair = |word: i32| [i32::from(word as i16), word >> 16];
        let [low, high] = pair(factors as i32);
        Self(
            self.0
                .map(|word| pair(word)[0] * low + pair(word)[1] * high),
        )
    }

    /// As f32.
    #[inline(always)]
    pub fn to_f32(self) -> F32x4 {
        F32x4(self.0.map(|v| v as f32))
    }

    /// The f32 of these bits.
    #[inline(always)]
    pub fn as_f32(self) -> F32x4 {
        F32x4(self.0.map(|v| f32::from_bits(v as u32)))
    }
}

impl Bytes {
    /// Reads from memory.
    #[inline(always)]
    pub fn load(from: &[u8; 16]) -> Self {
        Self(*from)
    }

    /// Reads eight bytes from memory; the others are zero.
    #[inline(always)]
    pub fn load_half(from: &[u8; 8]) -> Self {
        Self(std::array::from_fn(|i| from.get(i).copied().unwrap_or(0)))
    }

    /// The low half of each byte.
    #[inline(always)]
    pub fn low_nibbles(self) -> Self {
        Self(self.0.map(|v| v & 15))
    }

    /// The high half of each byte.
    #[inline(always)]
    pub fn high_nibbles(self) -> Self {
        Self(self.0.map(|v| v >> 4))
    }

    /// Bits that either has.
    #[inline(always)]
    pub fn or(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Each byte shifted to the left, or to the right if `by` is negative, as far as `mask` has its bits.
    #[inline(always)]
    pub fn shifted(self, by: i32, mask: u8) -> Self {
        Self(self.0.map(|byte| match by < 0 {
            true => byte >> by.unsigned_abs() & mask,
            false => byte << by.unsigned_abs() & mask,
        }))
    }

    /// For each byte, below 16, the entry of `table` there.
    #[inline(always)]
    pub fn look_up(self, table: Self) -> Self {
        Self(self.0.map(|at| table.0[usize::from(at)]))
    }

    /// The first and third byte of each four as 16-bit words, and the second and fourth.
    #[inline(always)]
    pub fn even_and_odd(self) -> [I32x4; 2] {
        let (fours, _) = self.0.as_chunks::<4>();
        [0, 1].map(|odd| {
            I32x4(std::array::from_fn(|lane| {
                i32::from(fours[lane][odd]) | i32::from(fours[lane][odd + 2]) << 16
            }))
        })
    }

    /// The eight little-endian 16-bit words, widened with their signs.
    #[inline(always)]
    pub fn words(self) -> [I32x4; 2] {
        [0, 4].map(|first| {
            I32x4(std::array::from_fn(|i| {
                let at = 2 * (first + i);
                i32::from(i16::from_le_bytes([self.0[at], self.0[at + 1]]))
            }))
        })
    }

    /// Byte `at` of each group of four, widened.
    #[inline(always)]
    pub fn every_fourth(self, at: usize) -> I32x4 {
        I32x4(std::array::from_fn(|lane| i32::from(self.0[4 * lane + at])))
    }
}
