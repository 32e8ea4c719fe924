//! Blocks as in a file, split losslessly into the two arrays of 32-bit words that shaders read.
//!
//! | dtype | `quants`, in words | `scales`, in words |
//! |---|---|---|
//! | F32 | 1 a value | none |
//! | F16, BF16 | 2 values a word, the first in the low half | none |
//! | Q8_0 | 8 a block: signed bytes, the first lowest | 2 blocks a word: f16 scale, the first low |
//! | Q4_0 | 4 a block: the 16 nibble bytes in order | 2 blocks a word: f16 scale, the first low |
//! | Q4_1 | 4 a block: the 16 nibble bytes in order | 1 a block: f16 scale low, f16 minimum high |
//!
//! Blocks are numbered through the whole weight, row after row; a weight with an odd number of blocks
//! (or of 16-bit values) ends in half a word of zeros.

use super::DType;

/// Words of some blocks, in the layout of the table above.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packed {
    /// The quantised values, or the plain ones of F32, F16 and BF16.
    pub quants: Vec<u32>,
    /// Scales and minima; empty for plain formats.
    pub scales: Vec<u32>,
}

/// Words of `quants` and `scales` that `blocks` blocks of `dtype` take.
pub const fn packed_len(dtype: DType, blocks: usize) -> (usize, usize) {
    match dtype {
        DType::F32 => (blocks, 0),
        DType::F16 | DType::BF16 => (blocks.div_ceil(2), 0),
        DType::Q8_0 => (blocks * 8, blocks.div_ceil(2)),
        DType::Q4_0 => (blocks * 4, blocks.div_ceil(2)),
        DType::Q4_1 => (blocks * 4, blocks),
    }
}

/// Splits whole blocks. The first block must have an even number in its weight, so that two scales
/// share a word in the same way wherever a file is cut.
pub fn repack(dtype: DType, blocks: &[u8]) -> Packed {
    assert_eq!(blocks.len() % dtype.block_bytes(), 0, "whole blocks");
    let header = match dtype {
        DType::F32 | DType::F16 | DType::BF16 => {
            return Packed {
                quants: words(blocks),
                scales: Vec::new(),
            };
        }
        DType::Q8_0 | DType::Q4_0 => 2,
        DType::Q4_1 => 4,
    };
    let count = blocks.len() / dtype.block_bytes();
    let mut quants = Vec::with_capacity(blocks.len() - count * header);
    let mut scales = Vec::with_capacity(count * header + 2);
    for block in blocks.chunks_exact(dtype.block_bytes()) {
        scales.extend_from_slice(&block[..header]);
        quants.extend_from_slice(&block[header..]);
    }
    Packed {
        quants: words(&quants),
        scales: words(&scales),
    }
}

/// Little-endian words; a last half word is filled with zeros.
fn words(bytes: &[u8]) -> Vec<u32> {
    let (whole, rest) = bytes.as_chunks();
    let mut words = Vec::with_capacity(bytes.len().div_ceil(4));
    words.extend(whole.iter().map(|&word| u32::from_le_bytes(word)));
    if !rest.is_empty() {
        let mut word = [0; 4];
        word[..rest.len()].copy_from_slice(rest);
        words.push(u32::from_le_bytes(word));
    }
    words
}
