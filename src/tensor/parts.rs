//! A block of levels taken apart, in the order of its values.

use half::f16;

use super::{
    DType,
    levels::{self, FP4, IQ4, MOST},
};

/// Values that share a scale, at least.
pub const GROUP: usize = 16;

/// `value = scale · (level − offset) + minimum`, or `scale · table[level]` where there is a table.
pub struct Parts {
    /// A level for each value.
    pub levels: [u8; MOST],
    /// For each 16 values.
    pub scales: [f32; MOST / GROUP],
    /// What is taken from each level, in formats without minima.
    pub offset: u8,
    /// For each 16 values.
    pub minima: [f32; MOST / GROUP],
    /// What levels stand for, if not for themselves.
    pub table: Option<&'static [i8; 16]>,
}

impl Parts {
    /// Of a block of a format with levels, as in a file.
    pub fn new(dtype: DType, block: &[u8]) -> Self {
        let mut parts = Self {
            levels: [0; MOST],
            scales: [0.0; MOST / GROUP],
            offset: match dtype {
                DType::Q4_0 => 8,
                DType::Q5_0 => 16,
                DType::Q3_K => 4,
                DType::Q6_K => 32,
                _ => 0,
            },
            minima: [0.0; MOST / GROUP],
            table: match dtype {
                DType::IQ4_NL | DType::IQ4_XS => Some(&IQ4),
                DType::MXFP4 => Some(&FP4),
                _ => None,
            },
        };
        levels::levels(dtype, block, &mut parts.levels);
        let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
        let mut each = |of: &dyn Fn(usize) -> [f32; 2]| {
            for i in 0..dtype.block_len() / GROUP {
                [parts.scales[i], parts.minima[i]] = of(i);
            }
        };
        match dtype {
            DType::F32 | DType::F16 | DType::BF16 | DType::Q8_0 => {}
            DType::Q4_0 | DType::Q5_0 | DType::IQ4_NL => each(&|_| [half(0), 0.0]),
            DType::Q4_1 | DType::Q5_1 => each(&|_| [half(0), half(2)]),
            DType::MXFP4 => each(&|_| [levels::scale_of_mxfp4(block[0]), 0.0]),
            DType::Q2_K => each(&|i| {
                let [factor, low] = [block[i] & 15, block[i] >> 4].map(f32::from);
                [half(80) * factor, -half(82) * low]
            }),
            DType::Q4_K | DType::Q5_K => {
                let factors = levels::scales_and_minima(&block[4..16]);
                each(&|i| {
                    let [factor, low] = factors[i / 2].map(f32::from);
                    [half(0) * factor, -half(2) * low]
                });
            }
            DType::Q3_K => {
                let factors = levels::scales_of_q3(&block[96..108]);
                each(&|i| [half(108) * f32::from(factors[i]), 0.0]);
            }
            DType::Q6_K => each(&|i| [half(208) * f32::from(block[192 + i] as i8), 0.0]),
            DType::IQ4_XS => {
                let factors = levels::scales_of_iq4_xs(&block[2..8]);
                each(&|i| [half(0) * f32::from(factors[i / 2]), 0.0]);
            }
        }
        parts
    }
}
