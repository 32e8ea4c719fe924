//! Reading results back: a pool of staging buffers, and the future that waits for one.

use std::{
    cell::RefCell,
    future::poll_fn,
    rc::Rc,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

use super::{
    device::{Device, Handle},
    memory::{Budget, Buffer},
};
use crate::error::{Error, ErrorKind, Result};

/// Staging buffers of one size.
pub(super) struct Staging {
    free: Rc<RefCell<Vec<Buffer>>>,
    budget: Budget,
    bytes: u64,
}

const USAGE: wgpu::BufferUsages = wgpu::BufferUsages::MAP_READ.union(wgpu::BufferUsages::COPY_DST);

impl Staging {
    /// `count` buffers of `bytes` each.
    pub async fn new(device: &Device, budget: &Budget, bytes: u64, count: usize) -> Result<Self> {
        let free = budget
            .buffers(device, "staging", USAGE, &vec![bytes; count])
            .await?;
        Ok(Self {
            free: Rc::new(RefCell::new(free)),
            budget: budget.clone(),
            bytes,
        })
    }

    /// No buffers yet, of `bytes` each.
    pub fn empty(budget: &Budget, bytes: u64) -> Self {
        Self {
            free: Rc::default(),
            budget: budget.clone(),
            bytes,
        }
    }

    /// A free buffer; a new one only where more reads are in flight than ever before.
    pub fn take(&self, device: &Device) -> Result<Loan> {
        let free = self.free.borrow_mut().pop();
        let buffer = match free {
            Some(buffer) => buffer,
            None => self.budget.buffer(device, "staging", USAGE, self.bytes)?,
        };
        Ok(Loan {
            buffer: Some(buffer),
            home: self.free.clone(),
            mapping: None,
        })
    }
}

/// A staging buffer in use. Dropping it, read or unread, gives it back to its pool.
pub(super) struct Loan {
    buffer: Option<Buffer>,
    home: Rc<RefCell<Vec<Buffer>>>,
    mapping: Option<Arc<Mutex<Mapping>>>,
}

/// What the device says about a mapping.
#[derive(Default)]
struct Mapping {
    result: Option<std::result::Result<(), wgpu::BufferAsyncError>>,
    waker: Option<Waker>,
}

impl Loan {
    /// The buffer to copy to.
    pub fn buffer(&self) -> &wgpu::Buffer {
        self.buffer.as_ref().expect("present until dropped")
    }

    /// Asks for the first `bytes` bytes, which the last submission fills.
    pub fn map(&mut self, device: &Device, bytes: u64) {
        let mapping = Arc::<Mutex<Mapping>>::default();
        self.mapping = Some(mapping.clone());
        self.buffer()
            .map_async(wgpu::MapMode::Read, 0..bytes, move |result| {
                let mut mapping = lock(&mapping);
                mapping.result = Some(result);
                if let Some(waker) = mapping.waker.take() {
                    waker.wake();
                }
            });
        // Firefox looks for finished mappings only every 100 ms, unless something is submitted.
        if cfg!(target_arch = "wasm32") {
            device.queue.submit([]);
        }
    }

    /// Waits for the mapping and hands its bytes to `take`.
    pub async fn read<T>(
        self,
        device: &Handle,
        submission: wgpu::SubmissionIndex,
        bytes: u64,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<T> {
        let mapping = self
            .mapping
            .clone()
            .ok_or_else(|| Error::internal("the buffer was not mapped"))?;
        let mut submission = Some(submission);
        let mapped = poll_fn(|context| {
            // A native device runs callbacks only when polled. On the web they come by themselves.
            if cfg!(not(target_arch = "wasm32")) && lock(&mapping).result.is_none() {
                let wait = wgpu::PollType::Wait {
                    submission_index: submission.take(),
                    timeout: None,
                };
                // A lost device is noticed below; nothing else can go wrong here.
                let _ = device.device.poll(wait);
            }
            let mut mapping = lock(&mapping);
            if let Some(result) = &mapping.result {
                return Poll::Ready(result.clone());
            }
            if device.health.check().is_err() {
                return Poll::Ready(Err(wgpu::BufferAsyncError));
            }
            mapping.waker = Some(context.waker().clone());
            if cfg!(not(target_arch = "wasm32")) {
                context.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await;
        device.health.check()?;
        mapped.map_err(|_| {
            Error::new(
                ErrorKind::DeviceLost,
                "the device gave no result back: load the model again",
            )
        })?;
        let view = self.buffer().get_mapped_range(0..bytes);
        let view = view.map_err(|error| Error::internal(format!("reading results: {error:?}")))?;
        Ok(take(&view))
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let Some(buffer) = self.buffer.take() else {
            return;
        };
        if let Some(mapping) = &self.mapping {
            // A buffer that could not be mapped is not worth keeping.
            if matches!(lock(mapping).result, Some(Err(_))) {
                return;
            }
            buffer.unmap();
        }
        self.home.borrow_mut().push(buffer);
    }
}

fn lock(mapping: &Mutex<Mapping>) -> MutexGuard<'_, Mapping> {
    mapping.lock().unwrap_or_else(PoisonError::into_inner)
}
