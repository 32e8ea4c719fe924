//! Model files: header → index of named tensors; then blocks, as they arrive.
//!
//! Nothing here knows where bytes come from, and nothing holds a whole file. [`gguf::Header`] and
//! [`safetensors::Header`] read a header from a stream; [`TensorStream`] then gives each further byte
//! to its tensor, and [`Assembler`] makes the model's weights of the tensors' blocks. A model may lie
//! in several files: [`Index::join`] makes one index of theirs.

mod assemble;
mod config;
pub mod gguf;
mod metadata;
pub mod safetensors;
mod stream;

use std::collections::HashSet;

pub use assemble::{Assembler, Part, Recipe};
pub use metadata::{Metadata, Value};
pub use stream::{Receiver, TensorStream};

use crate::{
    error::{Error, Result},
    tensor::WeightSpec,
};

/// The most bytes of one tensor: what 32 bits can count, because a wasm program can count no further.
pub const MAX_TENSOR: u64 = u32::MAX as u64;

/// What a file holds: its metadata and its tensors, in the order of their data.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// Whose names and conventions keys and tensors follow.
    pub format: Format,
    /// Keys and values of the header, or of `config.json`.
    pub metadata: Metadata,
    /// Tensors in the order of their offsets; those of several files, file after file.
    pub tensors: Vec<TensorInfo>,
    /// Tensors that are there but cannot be read.
    pub foreign: Vec<Foreign>,
    /// Where the header ends, in bytes from the beginning of the file; no tensor begins before. 0 in an
    /// index of several files.
    pub header_bytes: u64,
}

/// Whose conventions a model follows. They differ in the names of keys and tensors, and in how some
/// values are stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// GGUF files.
    #[default]
    Gguf,
    /// Hugging Face checkpoints: `config.json` and safetensors.
    Checkpoint,
}

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name, element type, and shape as a matrix: the innermost dimension (GGUF names it first,
    /// safetensors last) is `columns`, the product of the others `rows`.
    pub spec: WeightSpec,
    /// Where its data begins, in bytes from the beginning of the file.
    pub offset: u64,
}

/// A tensor of an element type that cannot be read. Checkpoints hold some that no model needs, such as
/// masks of truth values, so it is an error only for a weight that the model asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// The tensor's name.
    pub name: String,
    /// The name of its element type.
    pub dtype: String,
}

impl Index {
    /// One index of the files that hold a model together, with the metadata of the first.
    ///
    /// # Errors
    /// Two files hold a tensor of the same name; the parts of a split GGUF file are not all there or
    /// stand in another order.
    pub fn join(files: Vec<Self>) -> Result<Self> {
        let count = files.len();
        if count > 1 {
            for (at, file) in files.iter().enumerate() {
                if file.format == Format::Gguf {
                    gguf::check_part(file, at, count)?;
                }
            }
        }
        let mut files = files.into_iter();
        let mut whole = files.next().unwrap_or_default();
        gguf::check_alone(&whole, count)?;
        for file in files {
            whole.tensors.extend(file.tensors);
            whole.foreign.extend(file.foreign);
            whole.header_bytes = 0;
        }
        gguf::check_total(&whole)?;
        let mut names = HashSet::new();
        let tensors = whole.tensors.iter().map(|tensor| &tensor.spec.name);
        for name in tensors.chain(whole.foreign.iter().map(|foreign| &foreign.name)) {
            if !names.insert(name) {
                return Err(Error::weights(name, "two files hold a tensor of this name"));
            }
        }
        Ok(whole)
    }
}
