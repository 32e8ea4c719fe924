//! Values to blocks, rounded as the reference quantisers of ggml do (`quantize_row_*_ref`).

use decant::tensor::DType;
use half::{bf16, f16};

/// The formats that [`quantise`] writes. Those of the others search for scales in long programs; tests take
/// random blocks of them.
pub const QUANTISED: [DType; 6] = [
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::Q8_0,
    DType::Q4_0,
    DType::Q4_1,
];

/// The blocks of `values`, whose number is a multiple of the block length.
pub fn quantise(dtype: DType, values: &[f32]) -> Vec<u8> {
    assert!(
        values.len().is_multiple_of(dtype.block_len()),
        "whole blocks"
    );
    let blocks = values.chunks_exact(dtype.block_len());
    blocks.flat_map(|values| block(dtype, values)).collect()
}

fn block(dtype: DType, values: &[f32]) -> Vec<u8> {
    match dtype {
        DType::F32 => values[0].to_le_bytes().into(),
        DType::F16 => f16::from_f32(values[0]).to_le_bytes().into(),
        DType::BF16 => bf16::from_f32(values[0]).to_le_bytes().into(),
        DType::Q8_0 => {
            let scale = values.iter().fold(0f32, |max, v| max.max(v.abs())) / 127.0;
            let mut block = f16::from_f32(scale).to_le_bytes().to_vec();
            let inverse = inverse(scale);
            block.extend(values.iter().map(|v| (v * inverse).round() as i8 as u8));
            block
        }
        DType::Q4_0 => {
            // The value farthest from zero, the first of several, becomes -8 exactly.
            let farthest = |far: f32, &v: &f32| if v.abs() > far.abs() { v } else { far };
            let scale = values.iter().fold(0.0, farthest) / -8.0;
            let mut block = f16::from_f32(scale).to_le_bytes().to_vec();
            let inverse = inverse(scale);
            nibbles(values, |v| v * inverse + 8.5, &mut block);
            block
        }
        DType::Q4_1 => {
            let minimum = values.iter().copied().fold(f32::INFINITY, f32::min);
            let maximum = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let scale = (maximum - minimum) / 15.0;
            let mut block = f16::from_f32(scale).to_le_bytes().to_vec();
            block.extend(f16::from_f32(minimum).to_le_bytes());
            let inverse = inverse(scale);
            nibbles(values, |v| (v - minimum) * inverse + 0.5, &mut block);
            block
        }
        _ => panic!("{} is not in QUANTISED", dtype.name()),
    }
}

fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// Two values a byte: the low half from the first 16, the high half from the last 16.
fn nibbles(values: &[f32], level: impl Fn(f32) -> f32, block: &mut Vec<u8>) {
    let nibble = |v: f32| (level(v) as u8).min(15);
    block.extend((0..16).map(|i| nibble(values[i]) | nibble(values[i + 16]) << 4));
}
