//! Writes GGUF files, sound ones and (where a test sets a field by hand) others.

use decant::tensor::DType;

use super::quantise::quantise;

/// A file to be written. Sound as long as only the builder methods are used.
#[derive(Debug, Clone)]
pub struct Gguf {
    pub magic: [u8; 4],
    pub version: u32,
    /// What the header claims, where that is not the truth.
    pub metadata_count: Option<u64>,
    /// What the header claims, where that is not the truth.
    pub tensor_count: Option<u64>,
    /// Keys, numbers of value types, and encoded values.
    pub metadata: Vec<(Vec<u8>, u32, Vec<u8>)>,
    pub tensors: Vec<Tensor>,
    /// Tensor data begins at multiples of this; [`alignment`](Self::alignment) also tells the reader.
    pub alignment: usize,
}

/// A tensor of a file.
#[derive(Debug, Clone)]
pub struct Tensor {
    pub name: Vec<u8>,
    /// Lengths, the innermost first.
    pub shape: Vec<u64>,
    /// The number of dimensions that the header claims, where that is not the truth.
    pub dimensions: Option<u32>,
    /// The number of the element type.
    pub kind: u32,
    /// The offset that the header claims, where that is not where the data is written.
    pub offset: Option<u64>,
    pub data: Vec<u8>,
}

/// A metadata value to be written.
#[derive(Debug, Clone)]
pub enum Meta {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(String),
    /// The number of the items' type, how many, and their bytes.
    Array(u32, u64, Vec<u8>),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl Default for Gguf {
    fn default() -> Self {
        Self {
            magic: *b"GGUF",
            version: 3,
            metadata_count: None,
            tensor_count: None,
            metadata: Vec::new(),
            tensors: Vec::new(),
            alignment: 32,
        }
    }
}

impl Gguf {
    /// A file with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a metadata entry; strings, numbers and slices of them convert.
    pub fn meta(mut self, key: &str, value: impl Into<Meta>) -> Self {
        let (kind, bytes) = value.into().encode();
        self.metadata.push((key.into(), kind, bytes));
        self
    }

    /// Aligns tensor data to `bytes` and says so.
    pub fn alignment(mut self, bytes: u32) -> Self {
        self.alignment = bytes as usize;
        self.meta("general.alignment", bytes)
    }

    /// Adds a tensor; `shape` has the innermost length first, `data` is whole blocks.
    pub fn blocks(mut self, name: &str, shape: &[u64], dtype: DType, data: Vec<u8>) -> Self {
        self.tensors.push(Tensor {
            name: name.into(),
            shape: shape.into(),
            dimensions: None,
            kind: kind(dtype),
            offset: None,
            data,
        });
        self
    }

    /// Adds a tensor of `values`, quantised to `dtype`; `shape` has the innermost length first.
    pub fn tensor(self, name: &str, shape: &[u64], dtype: DType, values: &[f32]) -> Self {
        assert_eq!(shape.iter().product::<u64>(), values.len() as u64, "{name}");
        self.blocks(name, shape, dtype, quantise(dtype, values))
    }

    /// The header, without the padding before the data.
    pub fn header(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        let tensors = self.tensor_count.unwrap_or(self.tensors.len() as u64);
        out.extend(tensors.to_le_bytes());
        let entries = self.metadata_count.unwrap_or(self.metadata.len() as u64);
        out.extend(entries.to_le_bytes());
        for (key, kind, value) in &self.metadata {
            text(&mut out, key);
            out.extend(kind.to_le_bytes());
            out.extend(value);
        }
        let mut offset = 0;
        for tensor in &self.tensors {
            text(&mut out, &tensor.name);
            let dimensions = tensor.dimensions.unwrap_or(tensor.shape.len() as u32);
            out.extend(dimensions.to_le_bytes());
            out.extend(tensor.shape.iter().flat_map(|length| length.to_le_bytes()));
            out.extend(tensor.kind.to_le_bytes());
            out.extend(tensor.offset.unwrap_or(offset as u64).to_le_bytes());
            offset = (offset + tensor.data.len()).next_multiple_of(self.alignment);
        }
        out
    }

    /// The file. The last tensor is not padded.
    pub fn build(&self) -> Vec<u8> {
        let mut out = self.header();
        for tensor in &self.tensors {
            out.resize(out.len().next_multiple_of(self.alignment), 0);
            out.extend(&tensor.data);
        }
        out
    }
}

/// The number that stands for an element type in a file.
pub fn kind(dtype: DType) -> u32 {
    match dtype {
        DType::F32 => 0,
        DType::F16 => 1,
        DType::Q4_0 => 2,
        DType::Q4_1 => 3,
        DType::Q5_0 => 6,
        DType::Q5_1 => 7,
        DType::Q8_0 => 8,
        DType::Q2_K => 10,
        DType::Q3_K => 11,
        DType::Q4_K => 12,
        DType::Q5_K => 13,
        DType::Q6_K => 14,
        DType::IQ4_NL => 20,
        DType::IQ4_XS => 23,
        DType::BF16 => 30,
        DType::MXFP4 => 39,
    }
}

/// Appends a length and the bytes.
pub fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend(bytes);
}

impl Meta {
    /// The number of the type and the bytes of the value.
    pub fn encode(self) -> (u32, Vec<u8>) {
        match self {
            Self::U8(n) => (0, n.to_le_bytes().into()),
            Self::I8(n) => (1, n.to_le_bytes().into()),
            Self::U16(n) => (2, n.to_le_bytes().into()),
            Self::I16(n) => (3, n.to_le_bytes().into()),
            Self::U32(n) => (4, n.to_le_bytes().into()),
            Self::I32(n) => (5, n.to_le_bytes().into()),
            Self::F32(x) => (6, x.to_le_bytes().into()),
            Self::Bool(truth) => (7, vec![truth.into()]),
            Self::String(s) => {
                let mut bytes = Vec::new();
                text(&mut bytes, s.as_bytes());
                (8, bytes)
            }
            Self::Array(kind, count, items) => {
                let mut bytes = kind.to_le_bytes().to_vec();
                bytes.extend(count.to_le_bytes());
                bytes.extend(items);
                (9, bytes)
            }
            Self::U64(n) => (10, n.to_le_bytes().into()),
            Self::I64(n) => (11, n.to_le_bytes().into()),
            Self::F64(x) => (12, x.to_le_bytes().into()),
        }
    }
}

/// Conversions of a number, and of a slice of them.
macro_rules! numbers {
    ($($variant:ident $number:ty),*) => {$(
        impl From<$number> for Meta {
            fn from(value: $number) -> Self {
                Self::$variant(value)
            }
        }

        impl From<&[$number]> for Meta {
            fn from(values: &[$number]) -> Self {
                let (kind, _) = Self::$variant(<$number>::default()).encode();
                let items = values.iter().flat_map(|&v| Self::$variant(v).encode().1);
                Self::Array(kind, values.len() as u64, items.collect())
            }
        }
    )*};
}

numbers!(U8 u8, I8 i8, U16 u16, I16 i16, U32 u32, I32 i32, F32 f32, Bool bool, U64 u64, I64 i64, F64 f64);

impl From<&str> for Meta {
    fn from(value: &str) -> Self {
        Self::String(value.into())
    }
}

impl From<&[&str]> for Meta {
    fn from(values: &[&str]) -> Self {
        let mut items = Vec::new();
        for value in values {
            text(&mut items, value.as_bytes());
        }
        Self::Array(8, values.len() as u64, items)
    }
}

impl From<&[String]> for Meta {
    fn from(values: &[String]) -> Self {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        Self::from(&values[..])
    }
}
