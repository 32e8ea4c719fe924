//! GGUF files, versions 2 and 3, read from a stream of bytes.
//!
//! ```text
//! "GGUF"  version u32  tensor count u64  metadata count u64
//! metadata: key, value type u32, value
//! tensors:  name, dimensions u32, lengths u64 (innermost first), element type u32, offset u64
//! padding to the alignment
//! tensor data, each at its offset from here
//! ```
//!
//! Everything is little-endian; text is its length (u64) and UTF-8. Source: the GGUF specification.
//!
//! [`Header`] takes pieces of any size. Nothing is reserved on the word of a count: a number is
//! compared with what the file (if its size is known) or the largest header can hold, and then memory
//! grows only with the bytes that really arrive, to at most eight times as many (a list of 16-bit
//! integers, or metadata entries of a few bytes each).

mod reader;
mod split;
mod tensors;
mod value;

pub(super) use self::split::{check_alone, check_part, check_total};
use self::{
    reader::{Limit, Reader, Step, Stop},
    value::{Kind, List},
};
use super::{Format, Index, Metadata, TensorInfo};
use crate::error::{Error, Result};

/// The most bytes that a header may take: four times the 16 MiB of the largest vocabularies known
/// (some 260,000 tokens with 510,000 merges), small enough that a file of nothing but header is
/// refused before it fills the memory of a page.
pub const MAX_HEADER: u64 = 64 << 20;

/// The longest metadata key, in bytes.
const MAX_KEY: u64 = 65_535;

/// The fewest bytes of a metadata entry: a key of one byte and a value of one byte.
const MIN_ENTRY: u64 = 8 + 1 + 4 + 1;

/// Bytes that are looked at together, so that a large piece is not copied whole for the sake of a
/// small header at its beginning.
const PORTION: usize = 64 << 10;

/// Reads the header of a file from the pieces in which it arrives.
pub struct Header {
    file_size: Option<u64>,
    /// Bytes that arrived and are not yet part of a whole unit.
    pending: Vec<u8>,
    /// Position of `pending` in the file.
    start: u64,
    state: State,
    /// Metadata entries and tensors that the file claims.
    counts: [u64; 2],
    /// Metadata entries whose value is complete.
    entries: u64,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
}

/// What is read next.
enum State {
    /// Magic, version, counts.
    Preamble,
    /// A metadata key, or the first tensor if there are no more.
    Key,
    /// The type and value of this key.
    Value(String),
    /// Further items of this key's list.
    List(String, List),
    /// A tensor, or nothing if there are no more.
    Tensor,
    /// Nothing: the header is complete.
    Done,
}

impl Header {
    /// A header of which nothing has arrived. `file_size`, in bytes, makes it possible to refuse a
    /// file that is too short for its tensors before they are fetched.
    pub fn new(file_size: Option<u64>) -> Self {
        Self {
            file_size,
            pending: Vec::new(),
            start: 0,
            state: State::Preamble,
            counts: [0; 2],
            entries: 0,
            metadata: Metadata::default(),
            tensors: Vec::new(),
        }
    }

    /// Takes the next bytes of the file. Once the header is complete: the index, and how many of
    /// `bytes` belong to the header; the rest is for a [`TensorStream`](super::TensorStream).
    ///
    /// # Errors
    /// `InvalidWeights` or `Unsupported`, naming the key or tensor; a header that was refused stays
    /// refused. `Internal` if the header is already complete.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<(Index, usize)>> {
        let mut taken = 0;
        for portion in bytes.chunks(PORTION) {
            let before = self.start + self.pending.len() as u64;
            self.pending.extend_from_slice(portion);
            if self.advance()? {
                // A complete header ends in this portion: earlier bytes alone did not complete it.
                taken += (self.start - before) as usize;
                return Ok(Some((self.index()?, taken)));
            }
            taken += portion.len();
        }
        Ok(None)
    }

    /// Fails unless the header is complete, naming where the file ended.
    pub fn finish(&self) -> Result<()> {
        if matches!(self.state, State::Done) {
            return Ok(());
        }
        let end = self.start + self.pending.len() as u64;
        let message = format!("the file ends here, after {end} bytes; it was cut short");
        Err(Error::weights(self.place(), message))
    }

    /// Reads what can be read; whether the header is complete.
    fn advance(&mut self) -> Result<bool> {
        if matches!(self.state, State::Done) {
            return Err(Error::internal("a header got bytes after its end"));
        }
        let pending = std::mem::take(&mut self.pending);
        let size = self.file_size.filter(|&size| size <= MAX_HEADER);
        let limit = Limit {
            end: size.unwrap_or(MAX_HEADER),
            is_file_end: size.is_some(),
        };
        let mut reader = Reader::new(&pending, self.start, limit);
        let stop = self.read(&mut reader);
        let committed = reader.committed();
        self.pending = pending;
        self.pending.drain(..committed);
        self.start += committed as u64;
        match stop {
            Ok(()) => Ok(true),
            Err(Stop::More) => Ok(false),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// Reads unit after unit to the end of the header.
    fn read(&mut self, reader: &mut Reader) -> Step<()> {
        loop {
            reader.name(self.place());
            self.state = match &mut self.state {
                State::Preamble => {
                    self.counts = preamble(reader)?;
                    State::Key
                }
                State::Key if self.entries == self.counts[0] => State::Tensor,
                State::Key => {
                    let key = reader.text(MAX_KEY)?;
                    if key.is_empty() {
                        return Err(reader.error("the key is empty").into());
                    }
                    if self.metadata.0.contains_key(key) {
                        return Err(Error::weights(key, "the key is there twice").into());
                    }
                    State::Value(key.into())
                }
                State::Value(key) => match Kind::read(reader)? {
                    Kind::Array => {
                        let list = List::begin(reader, key)?;
                        State::List(std::mem::take(key), list)
                    }
                    kind => {
                        let value = value::scalar(kind, reader)?;
                        self.metadata.0.insert(std::mem::take(key), value);
                        self.entries += 1;
                        State::Key
                    }
                },
                State::List(key, list) => {
                    let value = list.read(reader)?;
                    self.metadata.0.insert(std::mem::take(key), value);
                    self.entries += 1;
                    State::Key
                }
                State::Tensor if self.tensors.len() as u64 == self.counts[1] => State::Done,
                State::Tensor => {
                    self.tensors.push(tensors::read(reader)?);
                    State::Tensor
                }
                State::Done => return Ok(()),
            };
            reader.commit();
        }
    }

    /// What is being read, for errors.
    fn place(&self) -> String {
        let [entries, tensors] = self.counts;
        match &self.state {
            State::Preamble | State::Done => "GGUF header".into(),
            State::Key => format!("metadata entry {} of {entries}", self.entries + 1),
            State::Value(key) | State::List(key, _) => key.clone(),
            State::Tensor => format!("tensor {} of {tensors}", self.tensors.len() + 1),
        }
    }

    /// The index of a complete header.
    fn index(&mut self) -> Result<Index> {
        const KEY: &str = "general.alignment";
        let alignment = self.metadata.u32(KEY)?.unwrap_or(32);
        if !alignment.is_power_of_two() {
            let message = format!("{alignment}, a power of two is needed");
            return Err(Error::weights(KEY, message));
        }
        let mut tensors = std::mem::take(&mut self.tensors);
        tensors::place(&mut tensors, self.start, alignment.into(), self.file_size)?;
        Ok(Index {
            format: Format::Gguf,
            foreign: Vec::new(),
            metadata: std::mem::take(&mut self.metadata),
            tensors,
            header_bytes: self.start,
        })
    }
}

/// Reads magic, version and the numbers of metadata entries and tensors.
fn preamble(reader: &mut Reader) -> Step<[u64; 2]> {
    let magic: [u8; 4] = reader.array()?;
    if &magic != b"GGUF" {
        let found = magic.escape_ascii();
        let message = format!("the file begins with \"{found}\", a GGUF file with \"GGUF\"");
        return Err(reader.error(message).into());
    }
    let version = reader.u32()?;
    if !matches!(version, 2 | 3) {
        let found = match version.swap_bytes() {
            swapped @ 1..=3 => format!("version {swapped} in big-endian order"),
            _ => format!("version {version}"),
        };
        let message = format!("GGUF {found}; versions 2 and 3 in little-endian order are read");
        return Err(Error::unsupported(message).into());
    }
    let tensors = reader.count(tensors::MIN_BYTES, "tensors")?;
    let entries = reader.count(MIN_ENTRY, "metadata entries")?;
    Ok([entries, tensors])
}
