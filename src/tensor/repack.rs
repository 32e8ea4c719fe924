//! Blocks as in a file, split losslessly into the two arrays of 32-bit words that shaders read.
//!
//! | dtype | `quants`, in words | `scales`, in words |
//! |---|---|---|
//! | F32 | 1 a value | none |
//! | F16, BF16 | 2 values a word, the first in the low half | none |
//! | Q8_0 | 8 a block: signed bytes, the first lowest | 2 blocks a word: f16 scale, the first low |
//! | Q4_0, IQ4_NL | 4 a block: nibbles | 2 blocks a word: f16 scale, the first low |
//! | MXFP4 | 4 a block: nibbles | 2 blocks a word: bf16 scale, the first low |
//! | Q4_1 | 4 a block: nibbles | 1 a block: f16 scale low, f16 minimum high |
//! | Q5_0 | 4 a block: nibbles | 3 for 2 blocks: a word of bits each, then as Q4_0 |
//! | Q5_1 | 4 a block: nibbles | 2 a block: bits, then as Q4_1 |
//! | Q2_K | 16 a block: pairs | 5 a block: d and dmin; 16 bytes of scale low and minimum high |
//! | Q3_K | 16 a block: pairs | 13 a block: d; 16 signed bytes of scale; 8 words of bits |
//! | Q4_K | 32 a block: nibbles | 5 a block: d and dmin; 8 times a byte of scale and one of minimum |
//! | Q5_K | 32 a block: nibbles | 13 a block: as Q4_K; 8 words of bits |
//! | Q6_K | 32 a block: nibbles | 21 a block: d; 16 signed bytes of scale; 16 words of pairs |
//! | IQ4_XS | 32 a block: nibbles | 2 a block: the first 8 bytes of the block |
//!
//! Levels are cut into planes of bits, and each plane of 32 values into words: values 4q … 4q + 3 are in
//! the bytes of a word, the first lowest. *Nibbles* are 4 words: word q mod 4, the low halves of bytes for
//! q < 4 (as GGUF has them in Q4_0). *Pairs* are 2 words: word q div 4, from bit 2·(q mod 4) of each byte
//! on. *Bits* are 1 word: bit q of each byte. The lowest bits of a level are in `quants`.
//!
//! Blocks are numbered through the whole weight, row after row; a weight with an odd number of blocks
//! (or of 16-bit values) ends with zeros in place of the second of two.

use half::bf16;

use super::{
    DType,
    levels::{self, MOST},
};

/// Words of some blocks, in the layout of the table above.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packed {
    /// The quantised values, or the plain ones of F32, F16 and BF16.
    pub quants: Vec<u32>,
    /// Scales and minima, and what else does not fit in whole vectors; empty for plain formats.
    pub scales: Vec<u32>,
}

/// Words of `quants` and `scales` that `blocks` blocks of `dtype` take.
pub const fn packed_len(dtype: DType, blocks: usize) -> (usize, usize) {
    match dtype {
        DType::F32 => (blocks, 0),
        DType::F16 | DType::BF16 => (blocks.div_ceil(2), 0),
        DType::Q8_0 => (blocks * 8, blocks.div_ceil(2)),
        DType::Q4_0 | DType::IQ4_NL | DType::MXFP4 => (blocks * 4, blocks.div_ceil(2)),
        DType::Q4_1 => (blocks * 4, blocks),
        DType::Q5_0 => (blocks * 4, blocks.div_ceil(2) * 3),
        DType::Q5_1 => (blocks * 4, blocks * 2),
        DType::Q2_K => (blocks * 16, blocks * 5),
        DType::Q3_K => (blocks * 16, blocks * 13),
        DType::Q4_K => (blocks * 32, blocks * 5),
        DType::Q5_K => (blocks * 32, blocks * 13),
        DType::Q6_K => (blocks * 32, blocks * 21),
        DType::IQ4_XS => (blocks * 32, blocks * 2),
    }
}

/// Splits whole blocks. The first block must have an even number in its weight, so that two scales
/// share a word in the same way wherever a file is cut.
pub fn repack(dtype: DType, blocks: &[u8]) -> Packed {
    assert_eq!(blocks.len() % dtype.block_bytes(), 0, "whole blocks");
    let blocks_of = || blocks.chunks_exact(dtype.block_bytes());
    let split = |header: usize| Packed {
        quants: words(
            &blocks_of()
                .flat_map(|block| &block[header..])
                .copied()
                .collect::<Vec<_>>(),
        ),
        scales: words(
            &blocks_of()
                .flat_map(|block| &block[..header])
                .copied()
                .collect::<Vec<_>>(),
        ),
    };
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => Packed {
            quants: words(blocks),
            scales: Vec::new(),
        },
        DType::Q8_0 | DType::Q4_0 | DType::IQ4_NL => split(2),
        DType::Q4_1 => split(4),
        DType::IQ4_XS => split(8),
        DType::MXFP4 => {
            let scale =
                |block: &[u8]| bf16::from_f32(levels::scale_of_mxfp4(block[0])).to_le_bytes();
            Packed {
                scales: words(&blocks_of().flat_map(scale).collect::<Vec<_>>()),
                ..split(1)
            }
        }
        _ => by_levels(dtype, blocks),
    }
}

/// The formats whose bits change their places.
fn by_levels(dtype: DType, blocks: &[u8]) -> Packed {
    let count = blocks.len() / dtype.block_bytes();
    let (quants, scales) = packed_len(dtype, count);
    let mut packed = Packed {
        quants: Vec::with_capacity(quants),
        scales: Vec::with_capacity(scales),
    };
    let mut levels = [0; MOST];
    for (number, block) in blocks.chunks_exact(dtype.block_bytes()).enumerate() {
        levels::levels(dtype, block, &mut levels);
        let (values, _) = levels[..dtype.block_len()].as_chunks::<32>();
        let Packed { quants, scales } = &mut packed;
        let high_bits = |from| values.iter().map(move |v| bits(v, from));
        match dtype {
            DType::Q2_K | DType::Q3_K => quants.extend(values.iter().flat_map(|v| pairs(v, 0))),
            _ => quants.extend(values.iter().flat_map(nibbles)),
        }
        match dtype {
            DType::Q5_0 => {
                // Two words of bits come before the word that two scales share.
                let scale = u32::from(u16::from_le_bytes([block[0], block[1]]));
                let fifth = bits(&values[0], 4);
                match &mut scales[..] {
                    [.., second, pair] if !number.is_multiple_of(2) => {
                        *second = fifth;
                        *pair |= scale << 16;
                    }
                    _ => scales.extend([fifth, 0, scale]),
                }
            }
            DType::Q5_1 => {
                scales.extend(high_bits(4));
                scales.extend(words(&block[..4]));
            }
            DType::Q2_K => {
                scales.extend(words(&block[80..]));
                scales.extend(words(&block[..16]));
            }
            DType::Q3_K => {
                scales.extend(words(&block[108..]));
                let factors = levels::scales_of_q3(&block[96..108]);
                scales.extend(words(&factors.map(|factor| factor as u8)));
                scales.extend(high_bits(2));
            }
            DType::Q4_K | DType::Q5_K => {
                scales.extend(words(&block[..4]));
                scales.extend(words(
                    levels::scales_and_minima(&block[4..16]).as_flattened(),
                ));
                if dtype == DType::Q5_K {
                    scales.extend(high_bits(4));
                }
            }
            DType::Q6_K => {
                scales.extend(words(&block[208..]));
                scales.extend(words(&block[192..208]));
                scales.extend(values.iter().flat_map(|v| pairs(v, 4)));
            }
            _ => unreachable!("the caller splits the other formats"),
        }
    }
    packed
}

/// The lowest four bits of 32 levels.
fn nibbles(values: &[u8; 32]) -> [u32; 4] {
    std::array::from_fn(|word| {
        let half = |q| quad(values, q, 0, 0x0f0f_0f0f);
        half(word) | half(word + 4) << 4
    })
}

/// Two bits of 32 levels.
fn pairs(values: &[u8; 32], from: u32) -> [u32; 2] {
    std::array::from_fn(|word| {
        let pair = |q: usize| quad(values, word * 4 + q, from, 0x0303_0303) << (q * 2);
        pair(0) | pair(1) | pair(2) | pair(3)
    })
}

/// A bit of 32 levels.
fn bits(values: &[u8; 32], from: u32) -> u32 {
    let bits = (0..8).map(|q| quad(values, q, from, 0x0101_0101) << q);
    bits.fold(0, |word, bit| word | bit)
}

/// Levels 4q to 4q + 3 in the bytes of a word, each without its lowest bits, and masked.
fn quad(values: &[u8; 32], q: usize, from: u32, mask: u32) -> u32 {
    let (quads, _) = values.as_chunks();
    u32::from_le_bytes(quads[q]) >> from & mask
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
