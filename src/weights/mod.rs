//! Model files: header → index of named tensors; then blocks, as they arrive.
//!
//! Nothing here knows where bytes come from, and nothing holds a whole file. [`gguf::Header`] reads
//! the header from a stream; [`TensorStream`] then gives each further byte to its tensor.

pub mod gguf;
mod metadata;
mod stream;

pub use metadata::{Metadata, Value};
pub use stream::{Receiver, TensorStream};

use crate::tensor::WeightSpec;

/// What a file holds: its metadata and its tensors, in the order of their data.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// Keys and values of the header.
    pub metadata: Metadata,
    /// Tensors in the order of their offsets.
    pub tensors: Vec<TensorInfo>,
    /// Where the header ends, in bytes from the beginning of the file; no tensor begins before.
    pub header_bytes: u64,
}

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name, element type, and shape as a matrix: the innermost dimension (GGUF names it first) is
    /// `columns`, the product of the others `rows`.
    pub spec: WeightSpec,
    /// Where its data begins, in bytes from the beginning of the file.
    pub offset: u64,
}

impl Index {
    /// The place of the tensor called `name` in [`tensors`](Self::tensors).
    pub fn find(&self, name: &str) -> Option<usize> {
        self.tensors
            .iter()
            .position(|tensor| tensor.spec.name == name)
    }
}
