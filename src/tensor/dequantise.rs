//! Quantised blocks to numbers: the published formula of each format, and nothing else.

use half::{bf16, f16};

use super::DType;

/// Writes the values of `blocks` (whole blocks of `dtype`, as in a file) to `values`.
///
/// Source of the formulas: the GGUF specification and `ggml-quants` reference. Every product is one
/// f32 multiplication (and one addition for Q4_1), so the result is the published one to f32 rounding.
///
/// # Panics
/// If the lengths do not belong together; callers check sizes when they read the file.
pub fn dequantise(dtype: DType, blocks: &[u8], values: &mut [f32]) {
    assert_eq!(
        blocks.len() / dtype.block_bytes() * dtype.block_len(),
        values.len()
    );
    assert_eq!(blocks.len() % dtype.block_bytes(), 0);
    let pairs = blocks
        .chunks_exact(dtype.block_bytes())
        .zip(values.chunks_exact_mut(dtype.block_len()));
    for (block, out) in pairs {
        match dtype {
            DType::F32 => out[0] = f32::from_le_bytes([block[0], block[1], block[2], block[3]]),
            DType::F16 => out[0] = half_at(block, 0),
            DType::BF16 => out[0] = bf16::from_le_bytes([block[0], block[1]]).to_f32(),
            DType::Q8_0 => {
                let scale = half_at(block, 0);
                for (value, &quant) in out.iter_mut().zip(&block[2..]) {
                    *value = scale * f32::from(quant as i8);
                }
            }
            DType::Q4_0 => {
                let scale = half_at(block, 0);
                for (i, &byte) in block[2..].iter().enumerate() {
                    out[i] = scale * (f32::from(byte & 15) - 8.0);
                    out[i + 16] = scale * (f32::from(byte >> 4) - 8.0);
                }
            }
            DType::Q4_1 => {
                let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
                for (i, &byte) in block[4..].iter().enumerate() {
                    out[i] = scale * f32::from(byte & 15) + minimum;
                    out[i + 16] = scale * f32::from(byte >> 4) + minimum;
                }
            }
        }
    }
}

fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}
