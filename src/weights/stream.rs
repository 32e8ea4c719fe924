//! Tensor data as it arrives: which blocks of which tensor each further byte belongs to.

use super::{Index, TensorInfo};
use crate::error::{Error, Result};

/// Receives the number of a tensor in the index, the number of a block in it, and whole blocks from
/// that one on, as in the file.
pub type Receiver<'a> = dyn FnMut(usize, usize, &[u8]) -> Result<()> + 'a;

/// Gives whole blocks to their tensors, in the order of a file, and keeps at most a grain of them: two,
/// unless told otherwise.
///
/// Every piece begins at an even block and holds an even number of them; only the last piece of a
/// tensor may be odd. That is what [`repack`](crate::tensor::repack) needs, where two blocks share
/// a word.
pub struct TensorStream {
    tensors: Vec<TensorInfo>,
    /// For each tensor, the blocks that are given together.
    grains: Vec<usize>,
    /// The tensor whose bytes come next; all before it are complete.
    current: usize,
    /// Position in the file of the next byte.
    position: u64,
    /// The beginning of a grain of blocks.
    remainder: Vec<u8>,
}

impl TensorStream {
    /// A stream that begins where the header of `index` ends.
    pub fn new(index: &Index) -> Self {
        Self {
            tensors: index.tensors.clone(),
            grains: vec![2; index.tensors.len()],
            current: 0,
            position: index.header_bytes,
            remainder: Vec::new(),
        }
    }

    /// Gives blocks in multiples of `grain(tensor)`, even numbers, from now on; before any has arrived.
    pub fn set_grains(&mut self, grain: impl Fn(usize) -> usize) {
        self.grains = (0..self.tensors.len()).map(grain).collect();
    }

    /// This stream from the first byte of the file on, the header included.
    #[must_use]
    pub fn with_header(mut self) -> Self {
        self.position = 0;
        self
    }

    /// Takes the next bytes of the file, cut anywhere, and gives `receiver` the whole blocks among
    /// them: in place where they have not been cut, after a copy where they have. Padding between
    /// tensors and after the last is passed over.
    ///
    /// # Errors
    /// Those of `receiver`, at once.
    pub fn push(&mut self, mut bytes: &[u8], receiver: &mut Receiver) -> Result<()> {
        while let Some(tensor) = self.tensors.get(self.current) {
            if bytes.is_empty() {
                return Ok(());
            }
            let gap = tensor.offset.saturating_sub(self.position);
            if gap > 0 {
                let skipped = gap.min(bytes.len() as u64);
                bytes = &bytes[skipped as usize..];
                self.position += skipped;
                continue;
            }
            // Below, lengths are of one tensor, which fits `usize`.
            let (total, block) = (tensor.spec.bytes(), tensor.spec.dtype.block_bytes());
            let begun = (self.position - tensor.offset) as usize;
            let left = total - begun;
            let kept = self.remainder.len();
            let grain = self.grains[self.current] * block;
            let first = (begun - kept) / block;
            let taken = if kept > 0 {
                // Complete the grain first; at the end of a tensor it may be smaller.
                let taken = (grain - kept).min(left).min(bytes.len());
                self.remainder.extend_from_slice(&bytes[..taken]);
                if self.remainder.len() == grain || taken == left {
                    receiver(self.current, first, &self.remainder)?;
                    self.remainder.clear();
                }
                taken
            } else {
                let taken = left.min(bytes.len());
                let whole = if taken == left {
                    taken
                } else {
                    taken - taken % grain
                };
                if whole > 0 {
                    receiver(self.current, first, &bytes[..whole])?;
                }
                self.remainder.extend_from_slice(&bytes[whole..taken]);
                taken
            };
            bytes = &bytes[taken..];
            self.position += taken as u64;
            if taken == left {
                self.current += 1;
            }
        }
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// Fails unless every tensor is complete, naming the first that is not.
    pub fn finish(&self) -> Result<()> {
        let Some(tensor) = self.tensors.get(self.current) else {
            return Ok(());
        };
        let arrived = self.position.saturating_sub(tensor.offset);
        let message = format!(
            "the file ends at byte {}, after {arrived} of the {} bytes of this tensor; it was cut short",
            self.position,
            tensor.spec.bytes()
        );
        Err(Error::weights(&tensor.spec.name, message))
    }
}
