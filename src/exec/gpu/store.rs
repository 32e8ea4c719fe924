//! What lives as long as the model: weights, the cache, and what is written so far.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
};

use super::{
    device::Device,
    dispatch::{page_bytes, past_bytes, past_quads, pool_bytes, quads},
    memory::{Budget, Buffer},
    placement::{ALIGNMENT, Part, Placement},
    stripes::{Shape, Stripe},
};
use crate::{
    error::{Error, Result},
    exec::Allocation,
    ops::WeightId,
    tensor::{dequantise, packed_len, repack},
};

/// Weights and cache on the device.
pub(super) struct Store {
    pub allocation: Allocation,
    pub placement: Placement,
    pub weights: Vec<Buffer>,
    /// Keys and values of each layer.
    pub cache: Vec<[Buffer; 2]>,
    /// What positions left in each layer that convolves.
    pub pasts: Vec<Buffer>,
    /// One page of any pool, for copies within a pool, which WebGPU does not do directly.
    page: Buffer,
    /// What bindings get that a dispatch does not read.
    pub nothing: Buffer,
    written: RefCell<Vec<usize>>,
    /// Stripes of which only a part has come, by weight and first row.
    partial: RefCell<HashMap<(usize, usize), Stripe>>,
    unflushed: Cell<u64>,
}

/// A native queue keeps a copy of what is written until something is submitted.
const FLUSH_BYTES: u64 = 16 << 20;

impl Store {
    /// Makes all buffers, or none.
    pub async fn new(device: &Device, budget: &Budget, allocation: Allocation) -> Result<Self> {
        let limit = device.binding_limit / ALIGNMENT * ALIGNMENT;
        let placement = Placement::plan(&allocation.weights, limit, device.adapter.software)?;
        let cache = &allocation.cache;
        let pool = pool_bytes(cache);
        let past = match cache.conv_layers {
            0 => 0,
            _ => past_bytes(cache),
        };
        let largest = pool.max(past);
        if largest > limit {
            return Err(Error::unsupported(format!(
                "a cache of {} positions needs {largest} bytes for one layer, the device binds {limit}: load with a shorter context",
                cache.pages * cache.page_size
            )));
        }
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST;
        let weights = budget
            .buffers(device, "weights", usage, &placement.buffers)
            .await?;
        let both = usage | wgpu::BufferUsages::COPY_SRC;
        let mut layers = Vec::with_capacity(cache.layers);
        for _ in 0..cache.layers {
            let pools = budget.buffers(device, "cache", both, &[pool, pool]).await?;
            layers.extend(<[Buffer; 2]>::try_from(pools));
        }
        let pasts = vec![past; cache.conv_layers];
        let pasts = budget.buffers(device, "cache", both, &pasts).await?;
        let page = largest / cache.pages.max(1) as u64;
        let mut small = budget
            .buffers(device, "small buffers", both, &[page, 16])
            .await?
            .into_iter();
        let (Some(page), Some(nothing)) = (small.next(), small.next()) else {
            return Err(Error::internal("two buffers were asked for"));
        };
        Ok(Self {
            written: RefCell::new(vec![0; allocation.weights.len()]),
            allocation,
            placement,
            weights,
            cache: layers,
            pasts,
            page,
            nothing,
            partial: RefCell::default(),
            unflushed: Cell::new(0),
        })
    }

    /// Writes blocks and returns how many bytes were sent.
    pub fn write(
        &self,
        device: &Device,
        weight: WeightId,
        first: usize,
        blocks: &[u8],
    ) -> Result<u64> {
        let spec = &self.allocation.weights[weight.0];
        let count = blocks.len() / spec.dtype.block_bytes();
        let fits =
            blocks.len().is_multiple_of(spec.dtype.block_bytes()) && first + count <= spec.blocks();
        if !fits || !first.is_multiple_of(2) {
            return Err(Error::weights(
                &spec.name,
                format!(
                    "{} bytes at block {first} do not fit a tensor of {} blocks",
                    blocks.len(),
                    spec.blocks()
                ),
            ));
        }
        let placed = &self.placement.weights[weight.0];
        let row_blocks = spec.columns / spec.dtype.block_len();
        let mut sent = 0;
        for part in &placed.parts {
            let start = part.first * row_blocks;
            let end = start + part.rows * row_blocks;
            let from = first.max(start);
            let to = (first + count).min(end);
            if from < to {
                let bytes = spec.dtype.block_bytes();
                let piece = &blocks[(from - first) * bytes..(to - first) * bytes];
                sent += self.write_part(device, weight, part, from - start, piece);
            }
        }
        self.written.borrow_mut()[weight.0] += count;
        self.flush(device, sent);
        Ok(sent)
    }

    /// `first` is the block's number in the part, an even one.
    fn write_part(
        &self,
        device: &Device,
        weight: WeightId,
        part: &Part,
        first: usize,
        blocks: &[u8],
    ) -> u64 {
        let spec = &self.allocation.weights[weight.0];
        let send = |buffer: usize, word: usize, words: &[u32]| {
            let bytes: &[u8] = bytemuck::cast_slice(words);
            device
                .queue
                .write_buffer(&self.weights[buffer], word as u64 * 4, bytes);
            bytes.len() as u64
        };
        if spec.rows == 1 {
            let mut values =
                vec![0.0; blocks.len() / spec.dtype.block_bytes() * spec.dtype.block_len()];
            dequantise(spec.dtype, blocks, &mut values);
            let words: &[u32] = bytemuck::cast_slice(&values);
            return send(
                part.quants.buffer,
                part.quants.word + first * spec.dtype.block_len(),
                words,
            );
        }
        let packed = repack(spec.dtype, blocks);
        let (quants, scales) = packed_len(spec.dtype, first);
        let mut sent = 0;
        let mut send_quants = |at: usize, words: &[u32]| {
            sent += send(part.quants.buffer, part.quants.word + at, words);
        };
        match self.placement.weights[weight.0].stripe {
            1 => send_quants(quants, &packed.quants),
            rows => {
                let (row_words, _) = packed_len(spec.dtype, spec.columns / spec.dtype.block_len());
                let key = |stripe: usize| (weight.0, part.first + stripe * rows);
                let part_words = part.rows * row_words;
                let shape = Shape {
                    rows,
                    row_words,
                    part_words,
                };
                let mut partial = self.partial.borrow_mut();
                shape.write(quants, &packed.quants, &mut partial, key, send_quants);
            }
        }
        if !packed.scales.is_empty() {
            sent += send(
                part.scales.buffer,
                part.scales.word + scales,
                &packed.scales,
            );
        }
        sent
    }

    fn flush(&self, device: &Device, sent: u64) {
        let unflushed = self.unflushed.get() + sent;
        self.unflushed.set(unflushed);
        if cfg!(not(target_arch = "wasm32")) && unflushed >= FLUSH_BYTES {
            self.unflushed.set(0);
            device.queue.submit([]);
            // What is lost is noticed by the next check of the device's health.
            let _ = device.device.poll(wgpu::PollType::Poll);
        }
    }

    /// Fails unless every block of every weight has arrived.
    pub fn check_written(&self) -> Result<()> {
        for (spec, &written) in self.allocation.weights.iter().zip(&*self.written.borrow()) {
            if written != spec.blocks() {
                return Err(Error::weights(
                    &spec.name,
                    format!("{written} of {} blocks were written", spec.blocks()),
                ));
            }
        }
        Ok(())
    }

    /// Records the copy of a page of every pool.
    pub fn copy_page(&self, encoder: &mut wgpu::CommandEncoder, from: u32, to: u32) {
        let cache = &self.allocation.cache;
        let bytes = page_bytes(cache, cache.kv_heads * quads(cache));
        let pools = self.cache.iter().flatten().map(|pool| (pool, bytes));
        let bytes = page_bytes(cache, past_quads(cache));
        let pasts = self.pasts.iter().map(|pool| (pool, bytes));
        for (pool, bytes) in pools.chain(pasts) {
            encoder.copy_buffer_to_buffer(pool, u64::from(from) * bytes, &self.page, 0, bytes);
            encoder.copy_buffer_to_buffer(&self.page, 0, pool, u64::from(to) * bytes, bytes);
        }
    }
}
