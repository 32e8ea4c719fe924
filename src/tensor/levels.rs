//! What the bits of a block say: a small whole number for each value, and scales that are whole numbers.
//!
//! Blocks interleave their bits for the vector units of the machines they were made on. Both the published
//! formulas and the layouts of the shaders begin with the numbers in the order of the values.

use super::DType;

/// The most values of a block.
pub(super) const MOST: usize = 256;

/// Writes the level of each value of `block`, unsigned: nibbles, or two, three, five or six bits.
/// Formats without levels have none to write.
pub(super) fn levels(dtype: DType, block: &[u8], levels: &mut [u8; MOST]) {
    let mut each = |level: &dyn Fn(usize) -> u8| {
        for (i, out) in levels[..dtype.block_len()].iter_mut().enumerate() {
            *out = level(i);
        }
    };
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 | DType::Q8_0 => {}
        DType::Q4_0 | DType::IQ4_NL => each(&|i| nibble(&block[2..], 32, i)),
        DType::Q4_1 => each(&|i| nibble(&block[4..], 32, i)),
        DType::MXFP4 => each(&|i| nibble(&block[1..], 32, i)),
        DType::IQ4_XS => each(&|i| nibble(&block[8..], 32, i)),
        DType::Q5_0 => each(&|i| nibble(&block[6..], 32, i) | fifth(&block[2..], i)),
        DType::Q5_1 => each(&|i| nibble(&block[8..], 32, i) | fifth(&block[4..], i)),
        DType::Q2_K => each(&|i| pair(&block[16..], i)),
        DType::Q3_K => each(&|i| pair(&block[32..], i) | (block[i % 32] >> (i / 32) & 1) << 2),
        DType::Q4_K => each(&|i| nibble(&block[16..], 64, i)),
        DType::Q5_K => {
            each(&|i| nibble(&block[48..], 64, i) | (block[16 + i % 32] >> (i / 32) & 1) << 4);
        }
        // 128 values share 64 bytes of nibbles, the low ones first, as one group of Q4_K would.
        DType::Q6_K => each(&|i| nibble(block, 128, i) | pair(&block[128..], i) << 4),
    }
}

/// The nibble of value `i` where each `group` values share bytes: the low nibbles are the first half.
fn nibble(bytes: &[u8], group: usize, i: usize) -> u8 {
    let half = group / 2;
    let byte = bytes[i / group * half + i % half];
    if i % group < half {
        byte & 15
    } else {
        byte >> 4
    }
}

/// Bit `i`, where the fifth bit of a level is.
fn fifth(bytes: &[u8], i: usize) -> u8 {
    (bytes[i / 8] >> (i % 8) & 1) << 4
}

/// The two bits of value `i`: 128 values share 32 bytes, the lowest bits are the first 32 values.
fn pair(bytes: &[u8], i: usize) -> u8 {
    bytes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3
}

/// The scales and minima of the eight times 32 values of Q4_K and Q5_K, from 12 bytes: six bits each.
pub(super) fn scales_and_minima(bytes: &[u8]) -> [[u8; 2]; 8] {
    std::array::from_fn(|i| match i {
        0..4 => [bytes[i] & 63, bytes[i + 4] & 63],
        _ => [
            bytes[i + 4] & 15 | bytes[i - 4] >> 6 << 4,
            bytes[i + 4] >> 4 | bytes[i] >> 6 << 4,
        ],
    })
}

/// The scales of the sixteen times 16 values of Q3_K, from 12 bytes: six bits each, less 32.
pub(super) fn scales_of_q3(bytes: &[u8]) -> [i8; 16] {
    std::array::from_fn(|i| {
        let low = nibble(bytes, 16, i);
        let high = bytes[8 + i % 4] >> (i / 4 * 2) & 3;
        (low | high << 4) as i8 - 32
    })
}

/// The scales of the eight times 32 values of IQ4_XS, from bytes 2 to 8 of the block: six bits each,
/// less 32.
pub(super) fn scales_of_iq4_xs(bytes: &[u8]) -> [i8; 8] {
    std::array::from_fn(|i| {
        let low = bytes[2 + i / 2] >> (i % 2 * 4) & 15;
        let high = bytes[i / 4] >> (i % 4 * 2) & 3;
        (low | high << 4) as i8 - 32
    })
}

/// The power of two of an MXFP4 block, halved because its numbers are doubled to be whole.
/// Every one is also a bf16.
pub(super) fn scale_of_mxfp4(byte: u8) -> f32 {
    f32::from_bits(match byte {
        0..2 => 0x0020_0000 << byte,
        _ => (u32::from(byte) - 1) << 23,
    })
}

/// What the nibbles of IQ4_NL and IQ4_XS stand for.
pub const IQ4: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// Twice what the nibbles of MXFP4 stand for: a sign, two bits of exponent and one of mantissa.
pub(super) const FP4: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];
