//! Vectors as WebAssembly's, with relaxed instructions where the build has them.
//!
//! Arrays are cast to vectors and back as a whole: put together lane by lane they become four stores of a lane.

use core::arch::wasm32::*;

/// Four f32.
#[derive(Debug, Clone, Copy)]
pub struct F32x4(v128);

/// Four i32.
#[derive(Debug, Clone, Copy)]
pub struct I32x4(v128);

/// Sixteen bytes.
#[derive(Debug, Clone, Copy)]
pub struct Bytes(v128);

impl F32x4 {
    /// The same number four times.
    #[inline(always)]
    pub fn splat(value: f32) -> Self {
        Self(f32x4_splat(value))
    }

    /// Reads from memory.
    #[inline(always)]
    pub fn load(from: &[f32; 4]) -> Self {
        Self(bytemuck::pod_read_unaligned(bytemuck::bytes_of(from)))
    }

    /// Writes to memory.
    #[inline(always)]
    pub fn store(self, to: &mut [f32; 4]) {
        bytemuck::bytes_of_mut(to).copy_from_slice(bytemuck::bytes_of(&self.0));
    }

    /// The four numbers.
    #[inline(always)]
    pub fn lanes(self) -> [f32; 4] {
        bytemuck::cast(self.0)
    }

    #[inline(always)]
    pub(super) fn plus(self, other: Self) -> Self {
        Self(f32x4_add(self.0, other.0))
    }

    #[inline(always)]
    pub(super) fn minus(self, other: Self) -> Self {
        Self(f32x4_sub(self.0, other.0))
    }

    #[inline(always)]
    pub(super) fn times(self, other: Self) -> Self {
        Self(f32x4_mul(self.0, other.0))
    }

    #[inline(always)]
    pub(super) fn over(self, other: Self) -> Self {
        Self(f32x4_div(self.0, other.0))
    }

    /// `self · factor + add`, rounded once or twice.
    #[inline(always)]
    pub fn mul_add(self, factor: Self, add: Self) -> Self {
        #[cfg(target_feature = "relaxed-simd")]
        return Self(f32x4_relaxed_madd(self.0, factor.0, add.0));
        #[cfg(not(target_feature = "relaxed-simd"))]
        return self * factor + add;
    }

    /// The larger of the two; NaN stays NaN.
    #[inline(always)]
    pub fn at_least(self, least: Self) -> Self {
        Self(f32x4_pmax(self.0, least.0))
    }

    /// The smaller of the two; NaN stays NaN.
    #[inline(always)]
    pub fn at_most(self, most: Self) -> Self {
        Self(f32x4_pmin(self.0, most.0))
    }

    /// The bits of the four.
    #[inline(always)]
    pub fn as_bits(self) -> I32x4 {
        I32x4(self.0)
    }
}

impl I32x4 {
    /// The same number four times.
    #[inline(always)]
    pub fn splat(value: i32) -> Self {
        Self(i32x4_splat(value))
    }

    /// The four numbers.
    #[inline(always)]
    pub fn lanes(self) -> [i32; 4] {
        bytemuck::cast(self.0)
    }

    /// The last bits of the first and third number in one word, 16 of each, and of the others.
    #[inline(always)]
    pub fn word_pairs(self) -> [u32; 2] {
        let zero = u32x4_splat(0);
        let packed = i8x16_shuffle::<0, 1, 8, 9, 4, 5, 12, 13, 16, 16, 16, 16, 16, 16, 16, 16>;
        let pairs: [u32; 4] = bytemuck::cast(packed(self.0, zero));
        [pairs[0], pairs[1]]
    }

    /// The last byte of each.
    #[cfg(target_feature = "relaxed-simd")]
    #[inline(always)]
    pub fn last_bytes(self) -> u32 {
        let zero = u32x4_splat(0);
        let packed = i8x16_shuffle::<0, 4, 8, 12, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16>;
        u32x4_extract_lane::<0>(packed(self.0, zero))
    }

    /// The last byte but one of each.
    #[cfg(target_feature = "relaxed-simd")]
    #[inline(always)]
    pub fn second_bytes(self) -> u32 {
        let zero = u32x4_splat(0);
        let packed = i8x16_shuffle::<1, 5, 9, 13, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16>;
        u32x4_extract_lane::<0>(packed(self.0, zero))
    }

    /// The sum, which wraps.
    #[inline(always)]
    pub fn add(self, other: Self) -> Self {
        Self(i32x4_add(self.0, other.0))
    }

    /// Bits that both have.
    #[inline(always)]
    pub fn and(self, other: Self) -> Self {
        Self(v128_and(self.0, other.0))
    }

    /// Bits that one of them has.
    #[inline(always)]
    pub fn or(self, other: Self) -> Self {
        Self(v128_or(self.0, other.0))
    }

    /// All bits where the two are equal, none elsewhere.
    #[inline(always)]
    pub fn equal(self, other: Self) -> Self {
        Self(i32x4_eq(self.0, other.0))
    }

    /// Shifted to the left.
    #[inline(always)]
    pub fn shl(self, bits: u32) -> Self {
        Self(i32x4_shl(self.0, bits))
    }

    /// As f32.
    #[inline(always)]
    pub fn to_f32(self) -> F32x4 {
        F32x4(f32x4_convert_i32x4(self.0))
    }

    /// The f32 of these bits.
    #[inline(always)]
    pub fn as_f32(self) -> F32x4 {
        F32x4(self.0)
    }

    /// For each lane the sum of the products of its two 16-bit words with the two of `factors`, all with signs.
    #[inline(always)]
    pub fn dot_pairs(self, factors: u32) -> Self {
        Self(i32x4_dot_i16x8(self.0, u32x4_splat(factors)))
    }

    /// Adds to each lane the products of its four bytes, below 128, with the four of `factors`, with signs.
    #[cfg(target_feature = "relaxed-simd")]
    #[inline(always)]
    pub fn add_dot(self, bytes: Bytes, factors: u32) -> Self {
        let factors = u32x4_splat(factors);
        Self(i32x4_relaxed_dot_i8x16_i7x16_add(factors, bytes.0, self.0))
    }
}

impl Bytes {
    /// Reads from memory.
    #[inline(always)]
    pub fn load(from: &[u8; 16]) -> Self {
        Self(bytemuck::cast(*from))
    }

    /// Reads eight bytes from memory; the others are zero.
    #[inline(always)]
    pub fn load_half(from: &[u8; 8]) -> Self {
        Self(u64x2(u64::from_le_bytes(*from), 0))
    }

    /// The low half of each byte.
    #[inline(always)]
    pub fn low_nibbles(self) -> Self {
        Self(v128_and(self.0, u8x16_splat(15)))
    }

    /// The high half of each byte.
    #[inline(always)]
    pub fn high_nibbles(self) -> Self {
        // By 16 bits: there is no shift of bytes in most machines.
        Self(v128_and(u16x8_shr(self.0, 4), u8x16_splat(15)))
    }

    /// Bits that either has.
    #[inline(always)]
    pub fn or(self, other: Self) -> Self {
        Self(v128_or(self.0, other.0))
    }

    /// Each byte shifted to the left, or to the right if `by` is negative, as far as `mask` has its bits.
    #[inline(always)]
    pub fn shifted(self, by: i32, mask: u8) -> Self {
        // By 16 bits, as there is no shift of bytes in most machines: what crosses over is masked.
        let words = if by < 0 {
            u16x8_shr(self.0, by.unsigned_abs())
        } else {
            u16x8_shl(self.0, by.unsigned_abs())
        };
        Self(v128_and(words, u8x16_splat(mask)))
    }

    /// For each byte, below 16, the entry of `table` there.
    #[inline(always)]
    pub fn look_up(self, table: Self) -> Self {
        Self(u8x16_swizzle(table.0, self.0))
    }

    /// The first and third byte of each four as 16-bit words, and the second and fourth.
    #[inline(always)]
    pub fn even_and_odd(self) -> [I32x4; 2] {
        [
            I32x4(v128_and(self.0, u16x8_splat(255))),
            I32x4(u16x8_shr(self.0, 8)),
        ]
    }

    /// The eight little-endian 16-bit words, widened with their signs.
    #[inline(always)]
    pub fn words(self) -> [I32x4; 2] {
        [
            I32x4(i32x4_extend_low_i16x8(self.0)),
            I32x4(i32x4_extend_high_i16x8(self.0)),
        ]
    }

    /// Byte `at` of each group of four, widened.
    #[inline(always)]
    pub fn every_fourth(self, at: usize) -> I32x4 {
        I32x4(v128_and(u32x4_shr(self.0, 8 * at as u32), u32x4_splat(255)))
    }
}
