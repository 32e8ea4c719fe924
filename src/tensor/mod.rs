//! Shapes, element types and the block layouts of quantised weights: plain data.
//!
//! A weight is a matrix of `rows × columns` values, stored row after row in *blocks* of
//! [`DType::block_len`] values and [`DType::block_bytes`] bytes. A block never crosses a row.
//! [`dequantise`] turns blocks into numbers and [`quantise`] numbers into blocks; [`repack`] splits them
//! into the two word arrays that the shaders read.

mod dequantise;
mod levels;
mod parts;
mod quantise;
mod repack;

pub use dequantise::dequantise;
pub use levels::IQ4;
pub use parts::{GROUP, Parts};
pub use quantise::quantise;
pub use repack::{Packed, packed_len, repack};

/// How the values of a weight are stored. Names and block formulas are those of GGUF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(
    non_camel_case_types,
    reason = "the names by which users know the formats"
)]
pub enum DType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of single precision.
    BF16,
    /// 32 values: f16 scale, 32 signed bytes.
    Q8_0,
    /// 32 values: f16 scale, 16 bytes of nibbles; value = scale × (nibble − 8).
    Q4_0,
    /// 32 values: f16 scale, f16 minimum, 16 bytes of nibbles; value = scale × nibble + minimum.
    Q4_1,
    /// 32 values: f16 scale, 32 fifth bits, 16 bytes of nibbles; value = scale × (level − 16).
    Q5_0,
    /// 32 values: f16 scale, f16 minimum, 32 fifth bits, 16 bytes of nibbles;
    /// value = scale × level + minimum.
    Q5_1,
    /// 256 values of 2 bits; each 16 have 4 bits of scale and of minimum, which two f16 multiply;
    /// value = d × scale × level − dmin × minimum.
    Q2_K,
    /// 256 values of 3 bits; each 16 have 6 bits of scale, which an f16 multiplies;
    /// value = d × (scale − 32) × (level − 4).
    Q3_K,
    /// 256 values of 4 bits; each 32 have 6 bits of scale and of minimum, which two f16 multiply;
    /// value = d × scale × level − dmin × minimum.
    Q4_K,
    /// As Q4_K with values of 5 bits.
    Q5_K,
    /// 256 values of 6 bits; each 16 have a signed byte of scale, which an f16 multiplies;
    /// value = d × scale × (level − 32).
    Q6_K,
    /// As Q4_0, with value = scale × one of 16 unevenly spaced numbers.
    IQ4_NL,
    /// 256 values of 4 bits; each 32 have 6 bits of scale, which an f16 multiplies;
    /// value = d × (scale − 32) × one of the numbers of IQ4_NL.
    IQ4_XS,
    /// 32 values: a power of two in a byte, 16 bytes of nibbles that are numbers of 4 bits.
    MXFP4,
}

impl DType {
    /// Every element type in the order of declaration, for tests that must cover them all.
    pub const ALL: [Self; 16] = [
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::Q8_0,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q2_K,
        Self::Q3_K,
        Self::Q4_K,
        Self::Q5_K,
        Self::Q6_K,
        Self::IQ4_NL,
        Self::IQ4_XS,
        Self::MXFP4,
    ];

    /// Values in one block.
    pub const fn block_len(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => 1,
            Self::Q8_0 | Self::Q4_0 | Self::Q4_1 => 32,
            Self::Q5_0 | Self::Q5_1 | Self::IQ4_NL | Self::MXFP4 => 32,
            Self::Q2_K | Self::Q3_K | Self::Q4_K | Self::Q5_K | Self::Q6_K | Self::IQ4_XS => 256,
        }
    }

    /// Bytes of one block in a file.
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::Q8_0 => 34,
            Self::Q4_0 | Self::IQ4_NL => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q2_K => 84,
            Self::Q3_K => 110,
            Self::Q4_K => 144,
            Self::Q5_K => 176,
            Self::Q6_K => 210,
            Self::IQ4_XS => 136,
            Self::MXFP4 => 17,
        }
    }

    /// The name users know, such as `Q4_1`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::Q8_0 => "Q8_0",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q2_K => "Q2_K",
            Self::Q3_K => "Q3_K",
            Self::Q4_K => "Q4_K",
            Self::Q5_K => "Q5_K",
            Self::Q6_K => "Q6_K",
            Self::IQ4_NL => "IQ4_NL",
            Self::IQ4_XS => "IQ4_XS",
            Self::MXFP4 => "MXFP4",
        }
    }
}

/// What a weight is called and how it is stored; its values travel separately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightSpec {
    /// The tensor's name in the file, for messages.
    pub name: String,
    /// How the values are stored.
    pub dtype: DType,
    /// Outputs of the matrix; 1 for a vector.
    pub rows: usize,
    /// Inputs of the matrix, or the length of the vector; a multiple of the block length.
    pub columns: usize,
}

impl WeightSpec {
    /// Blocks in the whole weight.
    pub fn blocks(&self) -> usize {
        // In this order the product is at most the bytes, which fit where the values might not.
        self.rows * (self.columns / self.dtype.block_len())
    }

    /// Bytes in the file.
    pub fn bytes(&self) -> usize {
        self.blocks() * self.dtype.block_bytes()
    }
}

/// A weight with its values at hand, as in a file.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    /// How the values are stored.
    pub dtype: DType,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub columns: usize,
    /// All blocks, row after row.
    pub blocks: &'a [u8],
}

impl Matrix<'_> {
    /// Writes the values of one row to `values`, which holds `columns`.
    pub fn row(&self, row: usize, values: &mut [f32]) {
        let bytes = self.columns / self.dtype.block_len() * self.dtype.block_bytes();
        dequantise(self.dtype, &self.blocks[row * bytes..][..bytes], values);
    }
}
