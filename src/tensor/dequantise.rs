//! Quantised blocks to numbers: the published formula of each format, and nothing else.

use half::{bf16, f16};

use super::{
    DType,
    levels::{self, FP4, IQ4, MOST},
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
    let mut levels = [0; MOST];
    levels::levels(dtype, block, &mut levels);
    let mut each = |value: &dyn Fn(usize, u8) -> f32| {
        for (i, (out, &level)) in out.iter_mut().zip(&levels).enumerate() {
            *out = value(i, level);
        }
    };
    let first = || half_at(block, 0);
    let second = || half_at(block, 2);
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 | DType::Q8_0 => {}
        DType::Q4_0 => {
            let scale = first();
            each(&|_, level| scale * (f32::from(level) - 8.0));
        }
        DType::Q5_0 => {
            let scale = first();
            each(&|_, level| scale * (f32::from(level) - 16.0));
        }
        DType::Q4_1 | DType::Q5_1 => {
            let (scale, minimum) = (first(), second());
            each(&|_, level| scale * f32::from(level) + minimum);
        }
        DType::IQ4_NL => {
            let scale = first();
            each(&|_, level| scale * f32::from(IQ4[usize::from(level)]));
        }
        DType::MXFP4 => {
            let scale = levels::scale_of_mxfp4(block[0]);
            each(&|_, level| scale * f32::from(FP4[usize::from(level)]));
        }
        DType::Q2_K => {
            let (scale, minimum) = (half_at(block, 80), half_at(block, 82));
            each(&|i, level| {
                let byte = block[i / 16];
                let low = minimum * f32::from(byte >> 4);
                scale * f32::from(byte & 15) * f32::from(level) - low
            });
        }
        DType::Q4_K | DType::Q5_K => {
            let (scale, minimum) = (first(), second());
            let factors = levels::scales_and_minima(&block[4..16]);
            each(&|i, level| {
                let [factor, low] = factors[i / 32].map(f32::from);
                scale * factor * f32::from(level) - minimum * low
            });
        }
        DType::Q3_K => {
            let (scale, factors) = (half_at(block, 108), levels::scales_of_q3(&block[96..108]));
            each(&|i, level| scale * f32::from(factors[i / 16]) * (f32::from(level) - 4.0));
        }
        DType::Q6_K => {
            let scale = half_at(block, 208);
            each(&|i, level| {
                scale * f32::from(block[192 + i / 16] as i8) * (f32::from(level) - 32.0)
            });
        }
        DType::IQ4_XS => {
            let (scale, factors) = (first(), levels::scales_of_iq4_xs(&block[2..8]));
            each(&|i, level| {
                scale * f32::from(factors[i / 32]) * f32::from(IQ4[usize::from(level)])
            });
        }
    }
}

fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}
