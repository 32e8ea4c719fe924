//! Tensor entries: name, shape, type and place, each checked as soon as it has arrived.

use super::reader::{Reader, Step};
use crate::{
    error::{Error, Result},
    tensor::{DType, WeightSpec},
    weights::{MAX_TENSOR, TensorInfo},
};

/// The longest name of a tensor, in bytes.
const MAX_NAME: u64 = 64;

/// The fewest bytes of an entry: a name of one byte, one dimension.
pub(super) const MIN_BYTES: u64 = 8 + 1 + 4 + 8 + 4 + 8;

/// Reads one entry. Its offset is still relative to the tensor data, which begins after the last
/// entry.
pub(super) fn read(reader: &mut Reader) -> Step<TensorInfo> {
    let name = reader.text(MAX_NAME)?;
    if name.is_empty() {
        return Err(reader.error("the name is empty").into());
    }
    reader.name(name);
    let dimensions = reader.u32()?;
    if !(1..=4).contains(&dimensions) {
        let message = format!("{dimensions} dimensions, 1 to 4 are allowed");
        return Err(reader.error(message).into());
    }
    let mut shape = [1; 4];
    for length in &mut shape[..dimensions as usize] {
        *length = reader.u64()?;
    }
    let number = reader.u32()?;
    let offset = reader.u64()?;
    let spec = spec(name, &shape[..dimensions as usize], dtype(name, number)?)?;
    Ok(TensorInfo { spec, offset })
}

/// Makes offsets absolute, sorts by them, and fails if tensors overlap, are twice there or leave
/// the file.
///
/// Tensor data begins at the first multiple of `alignment` from `header_bytes` on.
pub(super) fn place(
    tensors: &mut [TensorInfo],
    header_bytes: u64,
    alignment: u64,
    file_size: Option<u64>,
) -> Result<()> {
    let data = header_bytes.next_multiple_of(alignment);
    for tensor in &mut *tensors {
        let (name, offset) = (&tensor.spec.name, tensor.offset);
        if !offset.is_multiple_of(alignment) {
            let message = format!("offset {offset} is not a multiple of the alignment {alignment}");
            return Err(Error::weights(name, message));
        }
        let bytes = tensor.spec.bytes() as u64;
        let end = data.checked_add(offset).and_then(|n| n.checked_add(bytes));
        let end = end.filter(|&end| file_size.is_none_or(|size| end <= size));
        if end.is_none() {
            let file = match file_size {
                Some(size) => format!("the file ends at {size}; it is damaged or was cut short"),
                None => "no file is that long".into(),
            };
            let message = format!("{bytes} bytes at {data} + {offset}, but {file}");
            return Err(Error::weights(name, message));
        }
        tensor.offset += data;
    }
    tensors.sort_by_key(|tensor| tensor.offset);
    for pair in tensors.windows(2) {
        let end = pair[0].offset + pair[0].spec.bytes() as u64;
        if pair[1].offset < end {
            let message = format!(
                "begins at byte {}, inside {}, which ends at {end}",
                pair[1].offset, pair[0].spec.name
            );
            return Err(Error::weights(&pair[1].spec.name, message));
        }
    }
    let mut names: Vec<&str> = tensors.iter().map(|t| t.spec.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::weights(pair[0], "two tensors have this name")),
        None => Ok(()),
    }
}

/// The shape as a matrix. The first dimension is the one whose values are neighbours.
fn spec(name: &str, shape: &[u64], dtype: DType) -> Result<WeightSpec> {
    let fail = |message: String| Err(Error::weights(name, message));
    if shape.contains(&0) {
        return fail(format!("a dimension of 0 in {shape:?}"));
    }
    let block = dtype.block_len() as u64;
    if !shape[0].is_multiple_of(block) {
        return fail(format!(
            "rows of {} values do not fill blocks of {}, which hold {block}",
            shape[0],
            dtype.name()
        ));
    }
    let rows = shape[1..].iter().try_fold(1u64, |n, &d| n.checked_mul(d));
    let bytes = rows
        .and_then(|rows| rows.checked_mul(shape[0] / block))
        .and_then(|blocks| blocks.checked_mul(dtype.block_bytes() as u64));
    let values = rows.and_then(|rows| rows.checked_mul(shape[0]));
    let (Some(rows), Some(bytes), Some(values)) = (rows, bytes, values) else {
        return fail(format!(
            "the shape {shape:?} has more than 2^64 bytes or values"
        ));
    };
    let sizes = (usize::try_from(rows), usize::try_from(shape[0]));
    match sizes {
        (Ok(rows), Ok(columns)) if bytes <= MAX_TENSOR && values <= MAX_TENSOR => Ok(WeightSpec {
            name: name.into(),
            dtype,
            rows,
            columns,
        }),
        _ => {
            let (count, what) = match bytes <= MAX_TENSOR {
                true => (values, "values"),
                false => (bytes, "bytes"),
            };
            Err(Error::unsupported(format!(
                "{name}: a tensor of {count} {what}, at most {MAX_TENSOR} are supported"
            )))
        }
    }
}

/// The element type that `number` stands for, if it is one of ours.
fn dtype(name: &str, number: u32) -> Result<DType> {
    let known = TYPES.iter().find(|&&(n, ..)| n == number);
    let found = match known {
        Some(&(_, _, Some(dtype))) => return Ok(dtype),
        Some((_, known, None)) => format!("{known} (number {number})"),
        None => format!("the unknown number {number}"),
    };
    let supported: Vec<&str> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
    Err(Error::unsupported(format!(
        "{name}: its element type is {found}; supported are {}",
        supported.join(", ")
    )))
}

/// The element types of GGUF, those that were removed from it included. Source: `ggml.h` and the
/// constants of its `gguf` package.
#[rustfmt::skip]
const TYPES: [(u32, &str, Option<DType>); 42] = [
    (0, "F32", Some(DType::F32)),
    (1, "F16", Some(DType::F16)),
    (2, "Q4_0", Some(DType::Q4_0)),
    (3, "Q4_1", Some(DType::Q4_1)),
    (4, "Q4_2", None),
    (5, "Q4_3", None),
    (6, "Q5_0", Some(DType::Q5_0)),
    (7, "Q5_1", Some(DType::Q5_1)),
    (8, "Q8_0", Some(DType::Q8_0)),
    (9, "Q8_1", None),
    (10, "Q2_K", Some(DType::Q2_K)),
    (11, "Q3_K", Some(DType::Q3_K)),
    (12, "Q4_K", Some(DType::Q4_K)),
    (13, "Q5_K", Some(DType::Q5_K)),
    (14, "Q6_K", Some(DType::Q6_K)),
    (15, "Q8_K", None),
    (16, "IQ2_XXS", None),
    (17, "IQ2_XS", None),
    (18, "IQ3_XXS", None),
    (19, "IQ1_S", None),
    (20, "IQ4_NL", Some(DType::IQ4_NL)),
    (21, "IQ3_S", None),
    (22, "IQ2_S", None),
    (23, "IQ4_XS", Some(DType::IQ4_XS)),
    (24, "I8", None),
    (25, "I16", None),
    (26, "I32", None),
    (27, "I64", None),
    (28, "F64", None),
    (29, "IQ1_M", None),
    (30, "BF16", Some(DType::BF16)),
    (31, "Q4_0_4_4", None),
    (32, "Q4_0_4_8", None),
    (33, "Q4_0_8_8", None),
    (34, "TQ1_0", None),
    (35, "TQ2_0", None),
    (36, "IQ4_NL_4_4", None),
    (37, "IQ4_NL_4_8", None),
    (38, "IQ4_NL_8_8", None),
    (39, "MXFP4", Some(DType::MXFP4)),
    (40, "NVFP4", None),
    (41, "Q1_0", None),
];
