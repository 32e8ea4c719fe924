//! Numbers to blocks: plain formats by rounding, Q8_0 and Q4_0 as ggml's reference quantisation does.

use half::{bf16, f16};

use super::DType;
use crate::error::{Error, Result};

/// The blocks of `values`, whose number is a multiple of the block length.
///
/// Source of the formulas: `quantize_row_q8_0_ref` and `quantize_row_q4_0_ref` of ggml. The scale is
/// computed in f32 and stored as f16; quants are computed with the unrounded scale, as there.
///
/// # Errors
/// `Internal` for formats that files are only read in, and if values do not fill whole blocks.
pub fn quantise(dtype: DType, values: &[f32]) -> Result<Vec<u8>> {
    let blocks = values.chunks_exact(dtype.block_len());
    if !blocks.remainder().is_empty() {
        let message = format!("{} values are not blocks of {}", values.len(), dtype.name());
        return Err(Error::internal(message));
    }
    let mut out = Vec::with_capacity(blocks.len() * dtype.block_bytes());
    for block in blocks {
        match dtype {
            DType::F32 => out.extend(block[0].to_le_bytes()),
            DType::F16 => out.extend(f16::from_f32(block[0]).to_le_bytes()),
            DType::BF16 => out.extend(bf16::from_f32(block[0]).to_le_bytes()),
            DType::Q8_0 => q8_0(block, &mut out),
            DType::Q4_0 => q4_0(block, &mut out),
            _ => {
                let message = format!("no weight is made in {}", dtype.name());
                return Err(Error::internal(message));
            }
        }
    }
    Ok(out)
}

fn q8_0(block: &[f32], out: &mut Vec<u8>) {
    let most = block.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let scale = most / 127.0;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    out.extend(f16::from_f32(scale).to_le_bytes());
    // A tie goes away from zero, as C's roundf does.
    out.extend(block.iter().map(|x| (x * inverse).round() as i8 as u8));
}

/// The value of the largest magnitude becomes −8, so that it is met exactly.
fn q4_0(block: &[f32], out: &mut Vec<u8>) {
    let largest = block.iter().fold(
        0.0f32,
        |most, &x| if x.abs() > most.abs() { x } else { most },
    );
    let scale = largest / -8.0;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    out.extend(f16::from_f32(scale).to_le_bytes());
    let quant = |x: f32| ((x * inverse + 8.5) as u8).min(15);
    let (low, high) = block.split_at(block.len() / 2);
    out.extend(
        low.iter()
            .zip(high)
            .map(|(&low, &high)| quant(low) | quant(high) << 4),
    );
}
