//! Weight formats as the kernels read them: eight rows side by side.
//!
//! Eight rows (an *octet*) are stored together, so that a vector holds the same place of four of them and
//! their sums need no adding across. Four bytes of a row stay together, as in the file:
//!
//! | dtype | values of an octet | bytes of an octet |
//! |---|---|---|
//! | F32 | for each column the 8 rows' | none |
//! | F16, BF16 | none | for each column the 8 rows' |
//! | Q8_0 | for each block 8 scales | for each block 8 words of 4 columns, each of 8 rows; bytes are offset by 128 |
//! | Q4_0 | for each block 8 scales | for each block 4 words of 4 bytes of nibbles, each of 8 rows |
//! | Q4_1 | for each block 8 scales, 8 minima | the same |
//!
//! Scales are widened to f32. A format that is not in this table is stored as in the file, see
//! [`Weight`](super::weight::Weight).

use half::f16;

use super::simd::{Bytes, Quad};
use crate::tensor::DType;

/// Rows that are stored together.
pub const ROWS: usize = 8;
/// Values in a block of the quantised formats here.
pub const BLOCK: usize = 32;

/// How octets of a dtype are stored, in elements for each block of each octet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// f32 values: the plain ones, or scales and minima.
    pub values: usize,
    /// Bytes of the rest.
    pub bytes: usize,
}

/// The layout of a dtype that has one.
pub const fn layout(dtype: DType) -> Option<Layout> {
    let (values, bytes) = match dtype {
        DType::F32 => (ROWS, 0),
        DType::F16 | DType::BF16 => (0, 2 * ROWS),
        DType::Q8_0 => (ROWS, 32 * ROWS),
        DType::Q4_0 => (ROWS, 16 * ROWS),
        DType::Q4_1 => (2 * ROWS, 16 * ROWS),
        _ => return None,
    };
    Some(Layout { values, bytes })
}

/// Writes a block as in a file into its place among those of an octet: `values` and `bytes` are the block's
/// share of the octet, `lane` is the row in it.
pub fn interleave(dtype: DType, block: &[u8], lane: usize, values: &mut [f32], bytes: &mut [u8]) {
    let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
    let mut words = |quants: &[u8], flip: u8| {
        let words = bytes.chunks_exact_mut(4 * ROWS).zip(quants.chunks_exact(4));
        for (to, from) in words {
            for (to, from) in to[4 * lane..4 * lane + 4].iter_mut().zip(from) {
                *to = from ^ flip;
            }
        }
    };
    match dtype {
        DType::F32 => values[lane] = f32::from_le_bytes([block[0], block[1], block[2], block[3]]),
        DType::F16 | DType::BF16 => bytes[2 * lane..2 * lane + 2].copy_from_slice(block),
        DType::Q8_0 => {
            values[lane] = half(0);
            words(&block[2..], 0x80);
        }
        DType::Q4_0 => {
            values[lane] = half(0);
            words(&block[2..], 0);
        }
        DType::Q4_1 => {
            values[lane] = half(0);
            values[ROWS + lane] = half(2);
            words(&block[4..], 0);
        }
        _ => unreachable!("a format without a layout stays as in the file"),
    }
}

/// A quantised format: `value = scale · (quant − OFFSET) [+ minimum]`, in blocks of [`BLOCK`] values, `BYTES`
/// for those of an octet.
pub trait Quants<const BYTES: usize> {
    /// What the stored quants are larger by than those of the formula.
    const OFFSET: i32;
    /// Whether minima follow the scales.
    const MINIMA: bool;

    /// Columns `4q..4q + 4` and `16 + 4q..` of the first four rows and of the last four; `q` is below 4.
    fn quads(block: &[u8; BYTES], q: usize) -> [[Bytes; 2]; 2];

    /// Adds to each lane its row's products.
    fn dot<Q: Quad>(sum: Q::Sum, rows: Bytes, quad: &Q) -> Q::Sum;
}

/// Q8_0.
pub struct Eights;

/// Q4_1 with `MINIMA`, Q4_0 without.
pub struct Nibbles<const MINIMA: bool>;

impl Quants<256> for Eights {
    const OFFSET: i32 = 128;
    const MINIMA: bool = false;

    #[inline(always)]
    fn quads(block: &[u8; 256], q: usize) -> [[Bytes; 2]; 2] {
        let (vectors, _) = block.as_chunks();
        [q, q + 4].map(|q| [2 * q, 2 * q + 1].map(|at| Bytes::load(&vectors[at])))
    }

    #[inline(always)]
    fn dot<Q: Quad>(sum: Q::Sum, rows: Bytes, quad: &Q) -> Q::Sum {
        quad.dot_wide(sum, rows)
    }
}

impl<const MINIMA: bool> Quants<128> for Nibbles<MINIMA> {
    const OFFSET: i32 = if MINIMA { 0 } else { 8 };
    const MINIMA: bool = MINIMA;

    #[inline(always)]
    fn quads(block: &[u8; 128], q: usize) -> [[Bytes; 2]; 2] {
        let (vectors, _) = block.as_chunks();
        let both = [2 * q, 2 * q + 1].map(|at| Bytes::load(&vectors[at]));
        [both.map(Bytes::low_nibbles), both.map(Bytes::high_nibbles)]
    }

    #[inline(always)]
    fn dot<Q: Quad>(sum: Q::Sum, rows: Bytes, quad: &Q) -> Q::Sum {
        quad.dot(sum, rows)
    }
}
