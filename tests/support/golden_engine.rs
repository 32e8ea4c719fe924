//! Engines over golden checkpoints, with the files a checkpoint comes with.

use std::{fs, rc::Rc};

use decant::{
    exec::{Allocation, Executor, Reference},
    generation::{Capacity, Engine, EngineParts, ModelFacts, TapeSize, Value},
    load::long_angles,
    ops::CacheType,
    tokenizer::Tokenizer,
};
use pollster::block_on;

use super::{checkpoint, golden::folder, weights};

/// Positions in a page: few, so that sequences have several.
const PAGE_SIZE: usize = 8;

/// An engine of the checkpoint in `models/<name>` on the reference executor.
pub fn engine(name: &str) -> Engine {
    engine_on(Box::new(Reference::new()), name)
}

/// The same on any executor, with an f32 cache for four of the longest sequences and prompts in chunks of 16.
pub fn engine_on(mut executor: Box<dyn Executor>, name: &str) -> Engine {
    let model = checkpoint::files(name, "config.json").model().unwrap();
    let graph = model.graph;
    let tapes = [(1, 1), (16, 4)].map(|(max_rows, max_outputs)| TapeSize {
        max_rows,
        max_outputs,
    });
    let pages = 4 * graph.context_length.div_ceil(PAGE_SIZE);
    let cache = graph.cache(CacheType::F32, PAGE_SIZE, pages);
    let allocation = Allocation {
        weights: graph.weights.iter().map(|w| w.spec.clone()).collect(),
        groups: Vec::new(),
        cache,
        sequences: 4,
        pages_per_sequence: pages,
    };
    block_on(executor.allocate(allocation)).unwrap();
    weights::write(&graph, &model.tensors, &*executor);
    let prepared = tapes.map(|size| graph.tape(size.max_rows, size.max_outputs).unwrap());
    block_on(executor.prepare(prepared.to_vec())).unwrap();
    block_on(executor.prepare_sampling()).unwrap();
    let read = |file: &str| fs::read(folder().join("models").join(name).join(file)).unwrap();
    let tokenizer = Tokenizer::from_json(
        &read("tokenizer.json"),
        Some(&read("tokenizer_config.json")),
    );
    let tokenizer = tokenizer.unwrap();
    let generation: serde_json::Value =
        serde_json::from_slice(&read("generation_config.json")).unwrap();
    Engine::new(EngineParts {
        executor: Rc::from(executor),
        capacity: Capacity {
            tapes: tapes.to_vec(),
            sequences: 4,
        },
        cache,
        long: long_angles(&graph),
        model: ModelFacts {
            vocabulary: graph.config.vocabulary,
            context_length: graph.context_length,
            bos_token_id: tokenizer.bos_token_id(),
            eos_token_ids: tokenizer.eos_token_ids().to_vec(),
            pad_token_id: tokenizer.pad_token_id(),
        },
        tokenizer,
        generation_config: Value::from(generation),
    })
    .unwrap()
}
