//! The headers of a model's files, one after another.

use crate::{
    error::{Error, Result},
    weights::{Format, Index, gguf, safetensors},
};

/// Reads headers until all are there.
pub(super) struct Headers {
    format: Format,
    complete: Vec<Option<Index>>,
    /// The file whose header is arriving.
    current: Option<(usize, Header)>,
}

enum Header {
    Gguf(Box<gguf::Header>),
    Safetensors(safetensors::Header),
}

impl Headers {
    /// Of `files` GGUF files.
    pub fn gguf(files: usize) -> Self {
        Self::new(Format::Gguf, files)
    }

    /// Of `files` safetensors files.
    pub fn safetensors(files: usize) -> Self {
        Self::new(Format::Checkpoint, files)
    }

    fn new(format: Format, files: usize) -> Self {
        Self {
            format,
            complete: vec![None; files],
            current: None,
        }
    }

    /// What arrives next is file `file` from its first byte.
    pub fn begin(&mut self, file: usize, size: Option<u64>) {
        let header = match self.format {
            Format::Gguf => Header::Gguf(Box::new(gguf::Header::new(size))),
            Format::Checkpoint => Header::Safetensors(safetensors::Header::new(size)),
        };
        self.current = Some((file, header));
    }

    /// Takes the next bytes. Once the header is complete: how many of them belong to it.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<usize>> {
        let Some((file, header)) = &mut self.current else {
            return Err(Error::internal("bytes of no file"));
        };
        let header = match header {
            Header::Gguf(header) => header.push(bytes)?,
            Header::Safetensors(header) => header.push(bytes)?,
        };
        let Some((index, used)) = header else {
            return Ok(None);
        };
        self.complete[*file] = Some(index);
        self.current = None;
        Ok(Some(used))
    }

    /// What the headers say, once all are there.
    pub fn take_if_complete(&mut self) -> Option<Vec<Index>> {
        if self.complete.iter().any(Option::is_none) {
            return None;
        }
        std::mem::take(&mut self.complete).into_iter().collect()
    }

    /// Why the headers are not complete.
    pub fn finish(&self) -> Error {
        let missing = || Error::internal("a file was not pushed");
        self.check_ended().err().unwrap_or_else(missing)
    }

    /// Nothing more comes of the file that is arriving: fails if its header is not complete.
    pub fn check_ended(&self) -> Result<()> {
        match &self.current {
            Some((_, Header::Gguf(header))) => header.finish(),
            Some((_, Header::Safetensors(header))) => header.finish(),
            None => Ok(()),
        }
    }
}
