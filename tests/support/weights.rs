//! A model's weights, from tensors in memory to an executor.

use decant::{
    exec::Executor,
    model::{Graph, WeightSource},
    ops::WeightId,
    weights::Assembler,
};

/// Writes every weight of `graph`; `tensors` are the bytes of its index's tensors.
pub fn write(graph: &Graph, tensors: &[Vec<u8>], executor: &dyn Executor) {
    let mut assembler = Assembler::new(&graph.index().tensors, graph.stored());
    let write =
        &mut |weight, block, blocks: &[u8]| executor.write_weight(WeightId(weight), block, blocks);
    for (tensor, bytes) in tensors.iter().enumerate() {
        assembler.push(tensor, 0, bytes, write).unwrap();
    }
    assembler.finish().unwrap();
    for (id, weight) in graph.weights.iter().enumerate() {
        let WeightSource::Angles(rope, positions, places) = &weight.source else {
            continue;
        };
        let factors = places.iter().map(|&place| {
            let words = tensors[place].as_chunks().0.iter();
            words.map(|word| f32::from_le_bytes(*word)).collect()
        });
        let mut write = |first: usize, values: &[f32]| {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            executor.write_weight(WeightId(id), first, &bytes)
        };
        let factors: Vec<_> = factors.collect();
        rope.table(*positions, &factors, &mut write).unwrap();
    }
}
