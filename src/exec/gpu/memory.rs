//! Buffers on the device, with a budget and typed failure.

use std::{cell::Cell, rc::Rc};

use super::device::Device;
use crate::error::{Error, ErrorKind, Result};

/// A buffer that gives its bytes back to the budget, and its memory to the device, when dropped.
pub(super) struct Buffer {
    buffer: wgpu::Buffer,
    budget: Budget,
}

impl std::ops::Deref for Buffer {
    type Target = wgpu::Buffer;

    fn deref(&self) -> &wgpu::Buffer {
        &self.buffer
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.budget
            .used
            .set(self.budget.used.get() - self.buffer.size());
        self.buffer.destroy();
    }
}

/// How much may be allocated and how much is.
#[derive(Clone)]
pub(super) struct Budget {
    limit: u64,
    used: Rc<Cell<u64>>,
}

impl Budget {
    pub fn new(limit: Option<u64>) -> Self {
        Self {
            limit: limit.unwrap_or(u64::MAX),
            used: Rc::default(),
        }
    }

    /// Bytes of all living buffers.
    pub fn used(&self) -> u64 {
        self.used.get()
    }

    /// Makes a buffer of each of `sizes` bytes, or none: what was made before a failure is freed.
    ///
    /// `what` names the buffers in messages. Contents are zero.
    pub async fn buffers(
        &self,
        device: &Device,
        what: &str,
        usage: wgpu::BufferUsages,
        sizes: &[u64],
    ) -> Result<Vec<Buffer>> {
        let mut buffers = Vec::with_capacity(sizes.len());
        for &size in sizes {
            // One scope a buffer, so that a device that is full is not asked for more.
            let made = device.guarded(what, || self.buffer(device, what, usage, size));
            buffers.push(made.await??);
        }
        Ok(buffers)
    }

    /// Makes one buffer and leaves it to the device's health to notice a failure.
    pub fn buffer(
        &self,
        device: &Device,
        what: &str,
        usage: wgpu::BufferUsages,
        bytes: u64,
    ) -> Result<Buffer> {
        // A binding may not be empty.
        let size = bytes.next_multiple_of(16).max(16);
        let after = self.used.get().saturating_add(size);
        if after > self.limit {
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                format!(
                    "{what}: {after} bytes are needed, {} are allowed: choose a smaller model or context",
                    self.limit
                ),
            ));
        }
        let buffer = device.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(what),
            size,
            usage,
            mapped_at_creation: false,
        });
        self.used.set(after);
        Ok(Buffer {
            buffer,
            budget: self.clone(),
        })
    }
}
