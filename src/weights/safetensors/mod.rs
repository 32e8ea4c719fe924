//! Safetensors files, read from a stream of bytes.
//!
//! ```text
//! length of the header u64
//! header: JSON, { name: { "dtype", "shape", "data_offsets": [begin, end] }, ..., "__metadata__" }
//! tensor data, each at its offsets from here, without gaps
//! ```
//!
//! Source: the format's own description and its reference implementation. [`Header`] takes pieces of any
//! size; what it keeps grows with the bytes that really arrive, to at most ten times as many (a header of
//! tensors without dimensions), and never beyond what [`MAX_HEADER`] allows.

mod entry;
mod shards;

pub use shards::Shards;

use self::entry::{Entries, Entry};
use super::{Foreign, Format, Index, Metadata, TensorInfo};
use crate::error::{Error, Result};

/// The most bytes that a header may take. The largest checkpoints known have some 40,000 tensors, a
/// hundred bytes each, over all their files.
pub const MAX_HEADER: u64 = 4 << 20;

/// What errors about the header as a whole are about.
const NAME: &str = "safetensors header";

/// Bytes of the length before the header.
const LENGTH: usize = 8;

/// Reads the header of a file from the pieces in which it arrives.
pub struct Header {
    file_size: Option<u64>,
    /// What has arrived, the length included.
    bytes: Vec<u8>,
    done: bool,
}

impl Header {
    /// A header of which nothing has arrived. `file_size`, in bytes, makes it possible to refuse a file
    /// that is too short or too long for its tensors before they are fetched.
    pub fn new(file_size: Option<u64>) -> Self {
        Self {
            file_size,
            bytes: Vec::new(),
            done: false,
        }
    }

    /// Takes the next bytes of the file. Once the header is complete: the index, and how many of `bytes`
    /// belong to the header; the rest is for a [`TensorStream`](super::TensorStream). Its metadata is
    /// empty, because a model's lies in another file.
    ///
    /// # Errors
    /// `InvalidWeights` or `Unsupported`, naming the tensor; `Internal` if the header is already complete.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<(Index, usize)>> {
        if self.done {
            return Err(Error::internal("a header got bytes after its end"));
        }
        let before = self.bytes.len();
        let length = bytes.len().min(LENGTH.saturating_sub(before));
        self.bytes.extend_from_slice(&bytes[..length]);
        let Some(end) = self.end()? else {
            return Ok(None);
        };
        let taken = bytes.len().min(end - before);
        self.bytes.extend_from_slice(&bytes[length..taken]);
        if self.bytes.len() < end {
            return Ok(None);
        }
        self.done = true;
        let bytes = std::mem::take(&mut self.bytes);
        Ok(Some((self.index(&bytes[LENGTH..])?, taken)))
    }

    /// Fails unless the header is complete.
    pub fn finish(&self) -> Result<()> {
        if self.done {
            return Ok(());
        }
        let message = format!(
            "the file ends in its header, after {} bytes; it was cut short",
            self.bytes.len()
        );
        Err(Error::weights(NAME, message))
    }

    /// Where the header ends in the file, once its length has arrived.
    fn end(&self) -> Result<Option<usize>> {
        let Some(length) = self.bytes.first_chunk::<LENGTH>() else {
            return Ok(None);
        };
        let length = u64::from_le_bytes(*length);
        if length > MAX_HEADER {
            let message = format!(
                "the file begins with the header length {length}, at most {MAX_HEADER} are allowed; perhaps this is not a safetensors file"
            );
            return Err(Error::weights(NAME, message));
        }
        let end = length + LENGTH as u64;
        if let Some(size) = self.file_size.filter(|&size| size < end) {
            let message = format!("it would end at byte {end}, but the file has {size} bytes");
            return Err(Error::weights(NAME, message));
        }
        Ok(Some(end as usize))
    }

    fn index(&self, json: &[u8]) -> Result<Index> {
        let Entries(mut entries) =
            serde_json::from_slice(json).map_err(|error| Error::weights(NAME, error))?;
        let header_bytes = (LENGTH + json.len()) as u64;
        let mut names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::weights(pair[0], "two tensors have this name"));
        }
        entries.sort_by_key(|entry| entry.offsets);
        self.check_places(&entries, header_bytes)?;
        let mut index = Index {
            format: Format::Checkpoint,
            metadata: Metadata::default(),
            tensors: Vec::new(),
            foreign: Vec::new(),
            header_bytes,
        };
        for entry in entries {
            let offset = header_bytes + entry.offsets[0];
            match entry.spec()? {
                Ok(spec) => index.tensors.push(TensorInfo { spec, offset }),
                Err(dtype) => index.foreign.push(Foreign {
                    name: entry.name,
                    dtype,
                }),
            }
        }
        Ok(index)
    }

    /// Fails unless the tensors, which are sorted, lie one after another and fill the file.
    fn check_places(&self, entries: &[Entry], header_bytes: u64) -> Result<()> {
        let mut end = 0;
        for entry in entries {
            let [begin, next] = entry.offsets;
            if begin != end || next < begin {
                let message = format!(
                    "lies at bytes {begin} to {next} of the data, and what comes before ends at {end}; tensors must follow one another without gaps"
                );
                return Err(Error::weights(&entry.name, message));
            }
            end = next;
        }
        let whole = end.checked_add(header_bytes);
        match (whole, self.file_size) {
            (Some(whole), Some(size)) if whole != size => {
                let message = format!(
                    "the tensors end at byte {whole}, and the file at {size}; it is damaged or was cut short"
                );
                Err(Error::weights(NAME, message))
            }
            (Some(_), _) => Ok(()),
            (None, _) => Err(Error::weights(NAME, "no file is as long as its tensors")),
        }
    }
}
