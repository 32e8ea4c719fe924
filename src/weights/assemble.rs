//! Weights from tensors: most are a tensor as it is, some a slice, several tensors, or other numbers.
//!
//! Checkpoints store fused layers, transposed matrices and a tensor an expert, and a checkpoint may be
//! quantised while it is loaded. A [`Recipe`] says how a weight is made; the [`Assembler`] takes blocks
//! as a [`TensorStream`](super::TensorStream) gives them and passes blocks of weights on. It holds one
//! tensor at most, and only if that is transposed.

use std::collections::HashMap;

use super::TensorInfo;
use crate::{
    error::{Error, Result},
    tensor::{DType, WeightSpec, dequantise, quantise},
};

/// The values that are converted together; with every format, an even number of blocks.
const GRAIN: usize = 64;

/// About how many bytes of a transposed tensor are passed on together.
const BAND: usize = 1 << 20;

/// How a weight is made of tensors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recipe {
    /// What it is put together from.
    pub parts: Vec<Part>,
    /// Whether 1 is added to each value.
    pub add_one: bool,
}

/// A run of values of a tensor that is a run of values of a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The tensor's place in the index.
    pub tensor: usize,
    /// The first value; of a transposed tensor, the first column.
    pub from: usize,
    /// How many values; of a transposed tensor, columns, each of which becomes a row.
    pub len: usize,
    /// Where in the weight they begin, in values.
    pub at: usize,
    /// Whether columns become rows.
    pub transposed: bool,
}

/// Receives the number of a weight, the number of a block in it, an even one, and whole blocks from that
/// one on: an even number of them, or all to the end of the weight.
pub type Writer<'a> = dyn FnMut(usize, usize, &[u8]) -> Result<()> + 'a;

/// Makes weights of tensors as their blocks arrive.
pub struct Assembler {
    tensors: Vec<WeightSpec>,
    /// For each tensor, the weights it is part of.
    uses: Vec<Vec<(usize, Part)>>,
    weights: HashMap<usize, Target>,
    /// Bytes of the tensor that is being transposed.
    held: Vec<u8>,
    /// Single blocks that wait for the other of their pair, by weight and number.
    single: HashMap<(usize, usize), Vec<u8>>,
}

struct Target {
    dtype: DType,
    blocks: usize,
    add_one: bool,
}

impl Assembler {
    /// An assembler of weights of given shapes and element types from `tensors`. Weights are numbered by
    /// the caller.
    pub fn new<'a>(
        tensors: &[TensorInfo],
        weights: impl Iterator<Item = (usize, &'a WeightSpec, &'a Recipe)>,
    ) -> Self {
        let mut uses = vec![Vec::new(); tensors.len()];
        let mut targets = HashMap::new();
        for (number, spec, recipe) in weights {
            for part in &recipe.parts {
                uses[part.tensor].push((number, *part));
            }
            let target = Target {
                dtype: spec.dtype,
                blocks: spec.blocks(),
                add_one: recipe.add_one,
            };
            targets.insert(number, target);
        }
        Self {
            tensors: tensors.iter().map(|tensor| tensor.spec.clone()).collect(),
            uses,
            weights: targets,
            held: Vec::new(),
            single: HashMap::new(),
        }
    }

    /// The blocks of `tensor` that must arrive together, an even number.
    pub fn grain(&self, tensor: usize) -> usize {
        let dtype = self.tensors[tensor].dtype;
        let converted = self.uses[tensor].iter().any(|(weight, _)| {
            let target = &self.weights[weight];
            target.dtype != dtype || target.add_one
        });
        if converted {
            (GRAIN / dtype.block_len()).max(2)
        } else {
            2
        }
    }

    /// Takes the blocks of `tensor` from `first` on, in order and in multiples of its grain except at its
    /// end, and gives `writer` what becomes of them. Tensors follow one another.
    ///
    /// # Errors
    /// Those of `writer`, at once.
    pub fn push(
        &mut self,
        tensor: usize,
        first: usize,
        blocks: &[u8],
        writer: &mut Writer,
    ) -> Result<()> {
        let spec = &self.tensors[tensor];
        let (len, bytes) = (spec.dtype.block_len(), spec.dtype.block_bytes());
        let begin = first * len;
        let end = begin + blocks.len() / bytes * len;
        let (columns, total) = (spec.columns, spec.bytes());
        for (weight, part) in self.uses[tensor].clone() {
            if part.transposed {
                continue;
            }
            let (from, to) = (part.from.max(begin), (part.from + part.len).min(end));
            if from < to {
                let at = part.at + (from - part.from);
                let range = (from - begin) / len * bytes..(to - begin) / len * bytes;
                self.convert(tensor, weight, at, &blocks[range], writer)?;
            }
        }
        if self.uses[tensor].iter().any(|(_, part)| part.transposed) {
            self.held.reserve_exact(total - self.held.len());
            self.held.extend_from_slice(blocks);
            if self.held.len() == total {
                let held = std::mem::take(&mut self.held);
                self.transpose(tensor, &held, columns * bytes, writer)?;
            }
        }
        Ok(())
    }

    /// Gives columns of a whole tensor, whose rows have `stride` bytes, as rows.
    fn transpose(
        &mut self,
        tensor: usize,
        bytes: &[u8],
        stride: usize,
        writer: &mut Writer,
    ) -> Result<()> {
        let size = self.tensors[tensor].dtype.block_bytes();
        let inputs = self.tensors[tensor].rows;
        let band = (BAND / (inputs * size)).max(1);
        for (weight, part) in self.uses[tensor].clone() {
            for start in (0..part.len).step_by(band) {
                let mut rows = Vec::with_capacity(band.min(part.len - start) * inputs * size);
                for column in start..(start + band).min(part.len) {
                    let from = (part.from + column) * size;
                    for row in bytes.chunks_exact(stride) {
                        rows.extend_from_slice(&row[from..from + size]);
                    }
                }
                self.convert(tensor, weight, part.at + start * inputs, &rows, writer)?;
            }
        }
        Ok(())
    }

    /// Gives `blocks` of `tensor` to `weight` from value `at` on, in the weight's element type.
    fn convert(
        &mut self,
        tensor: usize,
        weight: usize,
        at: usize,
        blocks: &[u8],
        writer: &mut Writer,
    ) -> Result<()> {
        let (from, target) = (self.tensors[tensor].dtype, &self.weights[&weight]);
        let (to, add_one) = (target.dtype, target.add_one);
        let first = at / to.block_len();
        if from == to && !add_one {
            return self.pair(weight, first, blocks, writer);
        }
        let mut values = vec![0.0; blocks.len() / from.block_bytes() * from.block_len()];
        dequantise(from, blocks, &mut values);
        if add_one {
            values.iter_mut().for_each(|value| *value += 1.0);
        }
        self.pair(weight, first, &quantise(to, &values)?, writer)
    }

    /// Gives whole pairs of blocks to `writer`. A block whose other half comes from elsewhere waits for it.
    fn pair(
        &mut self,
        weight: usize,
        mut first: usize,
        mut blocks: &[u8],
        writer: &mut Writer,
    ) -> Result<()> {
        let target = &self.weights[&weight];
        let (size, last) = (target.dtype.block_bytes(), target.blocks - 1);
        if first % 2 == 1 && !blocks.is_empty() {
            self.wait(weight, first, &blocks[..size], writer)?;
            (first, blocks) = (first + 1, &blocks[size..]);
        }
        let count = blocks.len() / size;
        let whole = if first + count > last {
            count
        } else {
            count / 2 * 2
        };
        if whole > 0 {
            writer(weight, first, &blocks[..whole * size])?;
        }
        if whole < count {
            self.wait(weight, first + whole, &blocks[whole * size..], writer)?;
        }
        Ok(())
    }

    fn wait(
        &mut self,
        weight: usize,
        block: usize,
        bytes: &[u8],
        writer: &mut Writer,
    ) -> Result<()> {
        let Some(other) = self.single.remove(&(weight, block ^ 1)) else {
            self.single.insert((weight, block), bytes.into());
            return Ok(());
        };
        let pair = if block.is_multiple_of(2) {
            [bytes, &other].concat()
        } else {
            [&other, bytes].concat()
        };
        writer(weight, block & !1, &pair)
    }

    /// Fails if a block still waits for the other of its pair, which a complete set of parts excludes.
    pub fn finish(&self) -> Result<()> {
        if self.single.is_empty() && self.held.is_empty() {
            return Ok(());
        }
        Err(Error::internal("a weight was not put together completely"))
    }
}
