//! Quantised blocks to numbers: the published formula of each format, and nothing else.

use half::{bf16, f16};

use super::{
    DType,
    parts::{GROUP, Parts},
};

/// Writes the values of `blocks` (whole blocks of `dtype`, as in a file) to `values`.
///
/// Source of the formulas: the GGUF specification and `ggml-quants` reference. Operations round in the
/// same order as there, so the result is the published one to the last bit.
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
            _ => by_levels(dtype, block, out),
        }
    }
}

/// The formats whose values are levels.
fn by_levels(dtype: DType, block: &[u8], out: &mut [f32]) {
    let parts = Parts::new(dtype, block);
    for (i, (out, &level)) in out.iter_mut().zip(&parts.levels).enumerate() {
        let (scale, minimum) = (parts.scales[i / GROUP], parts.minima[i / GROUP]);
        *out = match parts.table {
            Some(table) => scale * f32::from(table[usize::from(level)]),
            None if parts.offset > 0 => scale * (f32::from(level) - f32::from(parts.offset)),
            None => scale * f32::from(level) + minimum,
        };
    }
}

fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}
