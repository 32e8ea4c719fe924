//! Weight formats as the kernels read them: eight rows side by side.
//!
//! Eight rows (an *octet*) are stored together, so that a vector holds the same place of four of them and
//! their sums need no adding across. Four bytes of a row stay together. For each 32 columns of an octet:
//!
//! | dtype | values | bytes |
//! |---|---|---|
//! | F32 | for each column the 8 rows' | none |
//! | F16, BF16 | none | for each column the 8 rows' |
//! | Q8_0 | 8 scales | 8 words of 4 columns, each of 8 rows; bytes are offset by 128 |
//! | Q4_0 | 8 scales | 4 words of 4 bytes of nibbles, each of 8 rows |
//! | IQ4_NL, IQ4_XS | 8 scales | the same |
//! | Q4_1, Q4_K | 8 scales, 8 minima | the same |
//! | Q2_K, Q3_K | 8 scales for each 16 columns, 8 minima for each | the same |
//! | Q5_0, Q5_1, Q5_K, MXFP4 | 8 scales, 8 minima | the same, and a word of 4 bytes with the fifth bits |
//! | Q6_K | 8 scales for each 16 columns | the same, and two words with two more bits |
//!
//! Scales are f32, with what they are made of multiplied. A nibble of bytes `4q..4q + 4` is of column `4q…` if it is
//! low and of column `16 + 4q…` if it is high; higher bits of the same columns stand in the word's bits from `q`
//! and from `4 + q` on, of two from `2q` on in a word each.

use super::simd::Bytes;
use crate::tensor::{DType, GROUP, IQ4, Parts};

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

/// The layout of a dtype.
pub const fn layout(dtype: DType) -> Layout {
    let (values, bytes) = match dtype {
        DType::F32 => return plain(ROWS, 0),
        DType::F16 | DType::BF16 => return plain(0, 2 * ROWS),
        DType::Q8_0 => (1, 32),
        DType::Q4_0 | DType::IQ4_NL | DType::IQ4_XS => (1, 16),
        DType::Q4_1 | DType::Q4_K => (2, 16),
        DType::Q2_K | DType::Q3_K => (4, 16),
        DType::Q5_0 | DType::Q5_1 | DType::Q5_K | DType::MXFP4 => (2, 20),
        DType::Q6_K => (2, 24),
    };
    let groups = dtype.block_len() / BLOCK;
    plain(values * ROWS * groups, bytes * ROWS * groups)
}

const fn plain(values: usize, bytes: usize) -> Layout {
    Layout { values, bytes }
}

/// Writes a block as in a file into its place among those of an octet: `values` and `bytes` are the block's
/// share of the octet, `lane` is the row in it.
pub fn interleave(dtype: DType, block: &[u8], lane: usize, values: &mut [f32], bytes: &mut [u8]) {
    match dtype {
        DType::F32 => values[lane] = f32::from_le_bytes([block[0], block[1], block[2], block[3]]),
        DType::F16 | DType::BF16 => bytes[2 * lane..2 * lane + 2].copy_from_slice(block),
        DType::Q8_0 => {
            values[lane] = half::f16::from_le_bytes([block[0], block[1]]).to_f32();
            for (i, quant) in block[2..].iter().enumerate() {
                bytes[place(i / 4, lane) + i % 4] = quant ^ 0x80;
            }
        }
        _ => levels(dtype, &Parts::new(dtype, block), lane, values, bytes),
    }
}

/// The first byte of a row in a word of an octet.
fn place(word: usize, lane: usize) -> usize {
    4 * (word * ROWS + lane)
}

fn levels(dtype: DType, parts: &Parts, lane: usize, values: &mut [f32], bytes: &mut [u8]) {
    let groups = dtype.block_len() / BLOCK;
    let each = values.chunks_exact_mut(values.len() / groups);
    let each = each.zip(bytes.chunks_exact_mut(bytes.len() / groups));
    for (group, (values, bytes)) in each.enumerate() {
        let level = |column: usize| parts.levels[group * BLOCK + column];
        let (rows, _) = values.as_chunks_mut::<ROWS>();
        let (scales, minima) = rows.split_at_mut(match dtype {
            DType::Q2_K | DType::Q3_K | DType::Q6_K => 2,
            _ => 1,
        });
        for (i, scale) in scales.iter_mut().enumerate() {
            scale[lane] = parts.scales[group * BLOCK / GROUP + i];
        }
        // Exactly, as levels and scales have few bits.
        let offset = match dtype {
            DType::MXFP4 => 12,
            _ => parts.offset,
        };
        for (i, minimum) in minima.iter_mut().enumerate() {
            let i = group * BLOCK / GROUP + i;
            minimum[lane] = parts.minima[i] - f32::from(offset) * parts.scales[i];
        }
        // Bits of several columns share a byte, and the block may not be the first in this place.
        for word in 4..bytes.len() / (4 * ROWS) {
            bytes[place(word, lane)..][..4].fill(0);
        }
        for column in 0..16 {
            let (q, at) = (column / 4, place(column / 4, lane) + column % 4);
            let mut pair = [level(column), level(16 + column)];
            if let (DType::MXFP4, Some(table)) = (dtype, parts.table) {
                pair = pair.map(|level| (table[usize::from(level)] + 12) as u8);
            }
            bytes[at] = (pair[0] & 15) | (pair[1] & 15) << 4;
            let [low, high] = pair.map(|level| level >> 4);
            let rest = place(4, lane) + column % 4;
            match bytes.len() / ROWS {
                20 => bytes[rest] |= low << q | high << (4 + q),
                24 => {
                    bytes[rest] |= low << (2 * q);
                    bytes[rest + 4 * ROWS] |= high << (2 * q);
                }
                _ => {}
            }
        }
    }
}

/// A quantised format: `value = scale · (quant − OFFSET) [+ minimum]`, in blocks of [`BLOCK`] values, `BYTES`
/// for those of an octet.
pub trait Quants<const BYTES: usize> {
    /// What the stored quants are larger by than those of the formula.
    const OFFSET: i32;
    /// Whether minima follow the scales.
    const MINIMA: bool;
    /// How many scales there are for 32 columns, one or two.
    const SCALES: usize;

    /// Whether the loop over a block's words is written out. Where words differ in shifts it may pay, and does for two
    /// more bits; elsewhere it costs registers.
    const UNROLLED: bool = false;

    /// Whether quants may be 128 or more.
    const WIDE: bool = false;

    /// Columns `4q..4q + 4` and `16 + 4q..` of the first four rows and of the last four; `q` is below 4.
    fn quads(block: &[u8; BYTES], q: usize) -> [[Bytes; 2]; 2];
}

/// Q8_0.
pub struct Eights;

/// Nibbles.
pub struct Nibbles<const OFFSET: i32, const MINIMA: bool, const SCALES: usize>;

/// Nibbles that stand for other numbers, of IQ4_NL and IQ4_XS.
pub struct Table;

/// Nibbles with a fifth bit.
pub struct Fives;

/// Nibbles with two more bits.
pub struct Sixes;

impl Quants<256> for Eights {
    const OFFSET: i32 = 128;
    const MINIMA: bool = false;
    const SCALES: usize = 1;
    const WIDE: bool = true;

    #[inline(always)]
    fn quads(block: &[u8; 256], q: usize) -> [[Bytes; 2]; 2] {
        [vectors(block, q), vectors(block, q + 4)]
    }
}

impl<const OFFSET: i32, const MINIMA: bool, const SCALES: usize> Quants<128>
    for Nibbles<OFFSET, MINIMA, SCALES>
{
    const OFFSET: i32 = OFFSET;
    const MINIMA: bool = MINIMA;
    const SCALES: usize = SCALES;

    #[inline(always)]
    fn quads(block: &[u8; 128], q: usize) -> [[Bytes; 2]; 2] {
        nibbles(block, q)
    }
}

impl Quants<128> for Table {
    const OFFSET: i32 = 128;
    const MINIMA: bool = false;
    const SCALES: usize = 1;
    const WIDE: bool = true;

    #[inline(always)]
    fn quads(block: &[u8; 128], q: usize) -> [[Bytes; 2]; 2] {
        const TABLE: [u8; 16] = {
            let mut table = [0; 16];
            let mut i = 0;
            while i < 16 {
                table[i] = (IQ4[i] as i32 + 128) as u8;
                i += 1;
            }
            table
        };
        let table = Bytes::load(&TABLE);
        let low = nibbles(block, q);
        halves(|half, i| low[half][i].look_up(table))
    }
}

impl Quants<160> for Fives {
    const OFFSET: i32 = 0;
    const MINIMA: bool = true;
    const SCALES: usize = 1;

    #[inline(always)]
    fn quads(block: &[u8; 160], q: usize) -> [[Bytes; 2]; 2] {
        let (low, bits) = (nibbles(block, q), vectors(block, 4));
        halves(|half, i| {
            // From bit `q` or `4 + q` to bit 4.
            let shift = 4 - q as i32 - 4 * half as i32;
            low[half][i].or(bits[i].shifted(shift, 16))
        })
    }
}

impl Quants<192> for Sixes {
    const OFFSET: i32 = 32;
    const MINIMA: bool = false;
    const SCALES: usize = 2;
    const UNROLLED: bool = true;

    #[inline(always)]
    fn quads(block: &[u8; 192], q: usize) -> [[Bytes; 2]; 2] {
        let (low, bits) = (nibbles(block, q), [vectors(block, 4), vectors(block, 5)]);
        // From bit `2q` to bit 4.
        halves(|half, i| low[half][i].or(bits[half][i].shifted(4 - 2 * q as i32, 48)))
    }
}

/// Word `word` of the first four rows and of the last four.
#[inline(always)]
fn vectors(block: &[u8], word: usize) -> [Bytes; 2] {
    let (vectors, _) = block.as_chunks();
    [
        Bytes::load(&vectors[2 * word]),
        Bytes::load(&vectors[2 * word + 1]),
    ]
}

#[inline(always)]
fn nibbles(block: &[u8], q: usize) -> [[Bytes; 2]; 2] {
    let [first, last] = vectors(block, q);
    [
        [first.low_nibbles(), last.low_nibbles()],
        [first.high_nibbles(), last.high_nibbles()],
    ]
}

/// `each(half, i)` in its place. Arrays' own `map` is not always inlined, and then vectors pass through memory.
#[inline(always)]
fn halves(each: impl Fn(usize, usize) -> Bytes) -> [[Bytes; 2]; 2] {
    [[each(0, 0), each(0, 1)], [each(1, 0), each(1, 1)]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_replaces_what_was_in_its_place() {
        for dtype in DType::ALL {
            let Layout { values, bytes } = layout(dtype);
            let [first, second] = [0xff, 0x2a].map(|byte| vec![byte; dtype.block_bytes()]);
            let written = |blocks: &[&[u8]]| {
                let (mut values, mut bytes) = (vec![0.0; values], vec![0; bytes]);
                for block in blocks {
                    interleave(dtype, block, 3, &mut values, &mut bytes);
                }
                (
                    values.iter().map(|v| v.to_bits()).collect::<Vec<_>>(),
                    bytes,
                )
            };
            assert_eq!(
                written(&[&first, &second]),
                written(&[&second]),
                "{dtype:?}"
            );
            assert_ne!(written(&[&first]), written(&[&second]), "{dtype:?}");
        }
    }
}
