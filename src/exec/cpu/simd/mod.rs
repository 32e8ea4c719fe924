//! Vectors of 128 bits as values, in WebAssembly's instructions or as plain arrays.
//!
//! Loads go through arrays of a known length, which compile to single loads without a check, so that
//! nothing here or above needs unsafe code. Which instructions there are is decided when the crate is
//! compiled; the build makes one module with relaxed instructions and one without.
//!
//! Products of quantised values are the one place where the two differ in more than an instruction: a
//! [`Quad`] holds four neighbouring activations in the form that is multiplied best.

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod portable;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;

use std::ops::{Add, Div, Mul, Sub};

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
use portable as native;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use wasm as native;

pub use native::{Bytes, F32x4, I32x4};
pub use quads::{Eights, Sixteens, bytes_are_fast};

/// What this build runs on, for people.
pub const NAME: &str = if cfg!(all(target_arch = "wasm32", target_feature = "relaxed-simd")) {
    "WebAssembly, relaxed SIMD"
} else if cfg!(all(target_arch = "wasm32", target_feature = "simd128")) {
    "WebAssembly, SIMD"
} else {
    "portable code"
};

/// Four quantised activations that stand next to each other, ready to meet the same four places of four
/// rows of a matrix.
pub trait Quad: Copy + Default {
    /// Bytes of four rows of a matrix, or some of them, in the form that is multiplied.
    type Rows: Copy;
    /// Sums of products, before the last addition.
    type Sum: Copy;
    /// Whether the sums of four rows stay in registers, with what their products need.
    const LEAN: bool = false;

    /// Activations in their order: the last 8 or 16 bits of each.
    fn new(values: I32x4) -> Self;

    /// A sum to begin with.
    fn sum(first: i32) -> Self::Sum;

    /// In how many steps bytes meet activations: those below 128, or if they are `wide`, any.
    fn steps(wide: bool) -> usize;

    /// What of `bytes`, four for each lane, is multiplied in `step`.
    fn rows(bytes: Bytes, wide: bool, step: usize) -> Self::Rows;

    /// Adds the products of `step` to each lane of `sum`: those of all steps are four for each.
    fn dot(&self, sum: Self::Sum, rows: Self::Rows, wide: bool, step: usize) -> Self::Sum;

    /// What was summed.
    fn total(sum: Self::Sum) -> I32x4;
}

/// Four activations of up to 16 bits, as 16-bit numbers: the even places of a matrix are met by one product, the
/// odd ones by another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Words([u32; 2]);

impl Quad for Words {
    type Rows = I32x4;
    type Sum = I32x4;
    const LEAN: bool = true;

    #[inline(always)]
    fn new(values: I32x4) -> Self {
        Self(values.word_pairs())
    }

    #[inline(always)]
    fn sum(first: i32) -> I32x4 {
        I32x4::splat(first)
    }

    #[inline(always)]
    fn steps(_: bool) -> usize {
        2
    }

    #[inline(always)]
    fn rows(bytes: Bytes, _: bool, step: usize) -> I32x4 {
        bytes.even_and_odd()[step]
    }

    #[inline(always)]
    fn dot(&self, sum: I32x4, rows: I32x4, _: bool, step: usize) -> I32x4 {
        sum.add(rows.dot_pairs(self.0[step]))
    }

    #[inline(always)]
    fn total(sum: I32x4) -> I32x4 {
        sum
    }
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "relaxed-simd")))]
mod quads {
    /// Activations of 16 bits.
    pub type Sixteens = super::Words;
    /// Activations of 8 bits. Without an instruction for them they are widened once, not for each row.
    pub type Eights = super::Words;

    /// There is no such instruction.
    pub fn bytes_are_fast() -> bool {
        false
    }
}
#[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
mod quads;

impl F32x4 {
    /// Four zeros.
    #[inline(always)]
    pub fn zero() -> Self {
        Self::splat(0.0)
    }

    /// The sum of the four.
    #[inline(always)]
    pub fn sum(self) -> f32 {
        let [a, b, c, d] = self.lanes();
        (a + b) + (c + d)
    }
}

/// Reads one byte of each line of memory, so that all lines come at once: a kernel that reads them one by one
/// waits for each where the machine does not see what comes next.
#[inline(always)]
pub fn fetch(bytes: &[u8]) {
    let (lines, _) = bytes.as_chunks::<64>();
    std::hint::black_box(lines.iter().fold(0, |all, line| all ^ line[0]));
}

/// The two halves of eight numbers.
#[inline(always)]
pub fn load8(from: &[f32; 8]) -> [F32x4; 2] {
    let (halves, _) = from.as_chunks();
    [F32x4::load(&halves[0]), F32x4::load(&halves[1])]
}

/// Writes two vectors as eight numbers.
#[inline(always)]
pub fn store8(halves: [F32x4; 2], to: &mut [f32; 8]) {
    let (to, _) = to.as_chunks_mut();
    halves[0].store(&mut to[0]);
    halves[1].store(&mut to[1]);
}

/// Eight halves (IEEE, little-endian) as numbers; infinities and NaN stay what they are.
#[inline(always)]
pub fn halves(from: &[u8; 16]) -> [F32x4; 2] {
    let numbers = finite_halves(from);
    let exponent = I32x4::splat(0x0f80_0000);
    let words = Bytes::load(from).words();
    [0, 1].map(|i| {
        let special = words[i].shl(13).and(exponent).equal(exponent);
        let bits = special.and(I32x4::splat(0x7f80_0000));
        numbers[i].as_bits().or(bits).as_f32()
    })
}

/// The same for halves that are all finite.
#[inline(always)]
pub fn finite_halves(from: &[u8; 16]) -> [F32x4; 2] {
    let [low, high] = from.wide();
    let factor = F32x4::splat(HALVES);
    [low * factor, high * factor]
}

/// What [`Octet::wide`] leaves out where numbers are halves: the difference of the exponents' biases, 2¹¹².
pub const HALVES: f32 = f32::from_bits((112 + 127) << 23);

/// Eight numbers in memory.
pub trait Octet {
    /// The numbers; of halves, which must be finite, divided by [`HALVES`]: exactly, and a product cheaper.
    fn wide(&self) -> [F32x4; 2];
}

impl Octet for [f32; 8] {
    #[inline(always)]
    fn wide(&self) -> [F32x4; 2] {
        load8(self)
    }
}

impl Octet for [u8; 16] {
    #[inline(always)]
    fn wide(&self) -> [F32x4; 2] {
        let (halves, _) = self.as_chunks();
        // Each half by a load of its own, which widens at no cost.
        let [low, high] = [Bytes::load_half(&halves[0]), Bytes::load_half(&halves[1])];
        let [low, high] = [low.words()[0], high.words()[0]];
        // The sign is in all bits above the rest.
        let mask = I32x4::splat(0x8fff_ffff_u32 as i32);
        [
            low.shl(13).and(mask).as_f32(),
            high.shl(13).and(mask).as_f32(),
        ]
    }
}

/// Eight numbers of type bfloat16 (little-endian), exactly.
#[inline(always)]
pub fn brain_halves(from: &[u8; 16]) -> [F32x4; 2] {
    Bytes::load(from).words().map(|word| word.shl(16).as_f32())
}

impl Add for F32x4 {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.plus(other)
    }
}

impl Sub for F32x4 {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.minus(other)
    }
}

impl Mul for F32x4 {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.times(other)
    }
}

impl Div for F32x4 {
    type Output = Self;
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.over(other)
    }
}
