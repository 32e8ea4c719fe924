//! Reads little-endian items from the part of a header that has arrived.
//!
//! Reading is by units: what was read since the last [`commit`](Reader::commit) is read again when
//! more bytes arrive, so a unit must be cheap to read twice. A length is believed only so far as to
//! wait for its bytes, and only if the header can still hold them.

use crate::error::{Error, Result};

/// Why a read gave nothing.
pub(super) enum Stop {
    /// The bytes have not arrived yet.
    More,
    /// They never will, or are wrong.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The result of reading a part of a unit.
pub(super) type Step<T> = std::result::Result<T, Stop>;

/// Where a header must end, and what to say about one that does not.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    /// Bytes from the beginning of the file.
    pub end: u64,
    /// Whether `end` is the file's own, and not the most that a header may take.
    pub is_file_end: bool,
}

/// A place in the bytes that have arrived and are not yet dropped.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    committed: usize,
    /// Position of `bytes` in the file.
    start: u64,
    limit: Limit,
    /// The metadata key or tensor that errors are about.
    name: String,
}

impl<'a> Reader<'a> {
    /// A reader of `bytes`, which begin at byte `start` of the file.
    pub fn new(bytes: &'a [u8], start: u64, limit: Limit) -> Self {
        Self {
            bytes,
            at: 0,
            committed: 0,
            start,
            limit,
            name: String::new(),
        }
    }

    /// Says what is read next, for errors.
    pub fn name(&mut self, name: impl Into<String>) {
        self.name = name.into();
    }

    /// Ends a unit: it will not be read again.
    pub fn commit(&mut self) {
        self.committed = self.at;
    }

    /// Bytes read in whole units.
    pub fn committed(&self) -> usize {
        self.committed
    }

    /// Bytes that have arrived and are not read yet.
    pub fn arrived(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// An error about what is being read.
    pub fn error(&self, message: impl std::fmt::Display) -> Error {
        Error::weights(&self.name, message)
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Step<&'a [u8]> {
        self.room(len as u64, 1, "bytes")?;
        let bytes = self.bytes.get(self.at..self.at + len).ok_or(Stop::More)?;
        self.at += len;
        Ok(bytes)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Step<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    /// An unsigned integer of 32 bits.
    pub fn u32(&mut self) -> Step<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// An unsigned integer of 64 bits.
    pub fn u64(&mut self) -> Step<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A number of items of at least `item_bytes` each, which the rest of the header can hold.
    pub fn count(&mut self, item_bytes: u64, items: &str) -> Step<u64> {
        let count = self.u64()?;
        self.room(count, item_bytes, items)?;
        Ok(count)
    }

    /// UTF-8 text of at most `max` bytes after its length.
    pub fn text(&mut self, max: u64) -> Step<&'a str> {
        let len = self.count(1, "bytes of text")?;
        if len > max {
            let message = format!("a name of {len} bytes, at most {max} are allowed");
            return Err(self.error(message).into());
        }
        // `count` has compared the length with the limit, which fits `usize` on every target.
        let bytes = self.bytes(len as usize)?;
        std::str::from_utf8(bytes).map_err(|_| self.error("text that is not UTF-8").into())
    }

    /// Fails unless `count` items of `item_bytes` fit between here and the limit.
    fn room(&self, count: u64, item_bytes: u64, items: &str) -> Result<()> {
        let position = self.start + self.at as u64;
        let left = self.limit.end.saturating_sub(position);
        if count.checked_mul(item_bytes).is_some_and(|n| n <= left) {
            return Ok(());
        }
        let why = if self.limit.is_file_end {
            format!("the file has {left} bytes left; it is damaged or was cut short")
        } else {
            format!(
                "a header may have {left} bytes more ({} in all)",
                self.limit.end
            )
        };
        Err(self.error(format!("{count} {items} at byte {position}, but {why}")))
    }
}
