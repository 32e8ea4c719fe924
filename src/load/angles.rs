//! Tables of angles: made when the tensors that hold their factors have arrived.

use std::collections::HashMap;

use crate::{
    error::Result,
    exec::Executor,
    model::{Graph, WeightEntry, WeightSource},
    ops::WeightId,
};

/// The bytes of the tensors that tables need, as they arrive. They are vectors of a head's width.
pub(super) struct Factors(HashMap<usize, Vec<u8>>);

impl Factors {
    /// Of all tables of `graph`.
    pub fn new(graph: &Graph) -> Self {
        let tensors = graph.weights.iter().flat_map(WeightEntry::factors);
        Self(tensors.map(|&tensor| (tensor, Vec::new())).collect())
    }

    /// Takes the next blocks of `tensor`.
    pub fn push(&mut self, tensor: usize, blocks: &[u8]) {
        if let Some(bytes) = self.0.get_mut(&tensor) {
            bytes.extend_from_slice(blocks);
        }
    }

    /// Every tensor is there: writes the tables.
    pub fn write(&self, graph: &Graph, executor: &dyn Executor) -> Result<()> {
        for (id, weight) in graph.weights.iter().enumerate() {
            let WeightSource::Angles(rope, positions, tensors) = &weight.source else {
                continue;
            };
            let values = tensors.iter().map(|tensor| {
                let words = self.0[tensor].as_chunks().0.iter();
                words.map(|word| f32::from_le_bytes(*word)).collect()
            });
            let values: Vec<_> = values.collect();
            rope.table(*positions, &values, &mut |first, angles| {
                executor.write_weight(WeightId(id), first, bytemuck::cast_slice(angles))
            })?;
        }
        Ok(())
    }
}
