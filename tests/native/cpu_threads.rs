//! Several threads on one tape: the same answers, to the bit, as of one.

use decant::{
    error::ErrorKind,
    exec::{Activations, Cpu, Executor, TapeId},
    model::{Graph, GraphOptions},
    ops::BufferId,
    tape::Step,
    tensor::DType,
};
use pollster::block_on;

use crate::support::{
    checkpoint::{self, CHECKPOINTS, Model, step},
    convert,
    crew::{self, End},
    generate, golden,
};

/// Everything that a model computes for its longer golden prompt, at once and in chunks: logits and all buffers.
fn everything(name: &str, model: &Model, executor: &mut Cpu) -> Vec<u32> {
    let ids = &golden::forward(name)[1].input_ids;
    let (rows, chunk) = (ids.len(), 3);
    let graph = &model.graph;
    let tapes = [rows, chunk].map(|rows| graph.tape(rows, rows).unwrap());
    let buffers = tapes[0].buffers.len();
    model.prepare(executor, tapes.to_vec());
    let run = |tape: usize, part: Step| {
        let count = part.tokens.len();
        let mut values = block_on(executor.forward(TapeId(tape), &part)).unwrap();
        for buffer in 0..buffers {
            // What an executor keeps there between the halves of a layer of experts is its own business.
            if tapes[tape].buffers[buffer].name != "experts" {
                values.extend(
                    block_on(executor.read(TapeId(tape), BufferId(buffer), count)).unwrap(),
                );
            }
        }
        values
    };
    let angles = vec![graph.angles(rows)];
    let mut values = run(
        0,
        Step {
            angles: angles.clone(),
            ..step(ids, 0, rows)
        },
    );
    for (at, ids) in ids.chunks(chunk).enumerate() {
        let part = step(ids, at * chunk, rows);
        values.extend(run(
            1,
            Step {
                angles: angles.clone(),
                ..part
            },
        ));
    }
    values.into_iter().map(f32::to_bits).collect()
}

#[test]
fn every_architecture_gives_the_same_bits_with_any_number_of_threads() {
    for name in CHECKPOINTS {
        let model = checkpoint::files(name, "config.json").model().unwrap();
        let one = everything(name, &model, &mut Cpu::new(Activations::F32));
        // Seven are more than there are heads, or key-value heads, in most.
        let many = ["gemma3", "llama", "olmoe"].contains(&name);
        for &count in if many { &[2, 3, 7][..] } else { &[2, 3] } {
            let found = everything(name, &model, &mut crew::cpu(Activations::F32, count));
            assert!(found == one, "{name} with {count} threads");
        }
    }
}

#[test]
fn quantised_layers_give_the_same_bits_with_any_number_of_threads() {
    for (name, dtype, activations) in [
        ("llama-tied", DType::Q8_0, Activations::Q16),
        ("stablelm", DType::Q4_0, Activations::Q8),
        ("olmoe", DType::Q8_0, Activations::Q16),
        ("qwen3_moe", DType::Q4_0, Activations::Q8),
    ] {
        let files = checkpoint::files(name, "config.json");
        let quantised = convert::gguf(&files, Some(dtype));
        assert!(
            quantised
                .tensors
                .iter()
                .any(|(spec, _)| spec.dtype == dtype)
        );
        let model = Model {
            graph: Graph::from_index(quantised.index(), GraphOptions::default()).unwrap(),
            tensors: quantised.bytes(),
        };
        let one = everything(name, &model, &mut Cpu::new(activations));
        for count in [2, 3] {
            let found = everything(name, &model, &mut crew::cpu(activations, count));
            assert!(found == one, "{name} with {count} threads");
        }
    }
}

#[test]
fn two_threads_give_the_answers_of_hugging_face() {
    // Among them batches, beams, and copies of pages.
    let engine = generate::engine("llama", Box::new(crew::cpu(Activations::F32, 2)));
    assert_eq!(generate::check("llama", &engine), 82);
}

#[test]
fn a_token_takes_five_rounds_a_layer() {
    // The second has norms of queries and keys, which are read before the values.
    for name in ["llama", "qwen3"] {
        let model = checkpoint::files(name, "config.json").model().unwrap();
        let leader = End::leader(2, usize::MAX);
        let rounds = leader.rounds();
        let mut cpu = Cpu::with_crew(Activations::F32, Box::new(leader));
        model.prepare(&mut cpu, vec![model.graph.tape(1, 1).unwrap()]);
        let before = rounds();
        block_on(cpu.forward(TapeId(0), &step(&[5], 0, 1))).unwrap();
        // Queries, keys and values; what attention gives; the layer's input, its gated values, what comes of them.
        let layers = 5 * model.graph.config.layers.len();
        // What is to be done, the row of the token, the scores.
        assert_eq!(rounds() - before, layers + 3, "{name}");
    }
}

#[test]
fn a_thread_without_memory_fails_the_load() {
    let model = checkpoint::files("llama", "config.json").model().unwrap();
    for (status, kind) in [(1, ErrorKind::OutOfMemory), (2, ErrorKind::Internal)] {
        let leader = Box::new(End::of_failing(status));
        let mut cpu = Cpu::with_crew(Activations::F32, leader);
        let allocation = model.allocation(&[model.graph.tape(1, 1).unwrap()]);
        let error = block_on(cpu.allocate(allocation)).unwrap_err();
        assert_eq!(*error.kind(), kind, "{error}");
    }
}

#[test]
fn a_thread_that_is_gone_is_an_error_and_not_a_wait() {
    let name = "llama";
    let model = checkpoint::files(name, "config.json").model().unwrap();
    let ids = &golden::forward(name)[0].input_ids;
    let run = |last: usize| {
        let mut cpu = Cpu::with_crew(Activations::F32, Box::new(End::leader(2, last)));
        model.prepare(
            &mut cpu,
            vec![model.graph.tape(ids.len(), ids.len()).unwrap()],
        );
        let step = step(ids, 0, ids.len());
        [(); 2]
            .map(|()| block_on(cpu.forward(TapeId(0), &step)).map_err(|error| error.kind().clone()))
    };
    // Not while it is loaded, but in the middle of the first step or of the second.
    assert!(run(usize::MAX).iter().all(Result::is_ok));
    let mut seen = [false; 2];
    for last in (0..).step_by(7) {
        let Ok(found) = std::panic::catch_unwind(|| run(last)) else {
            continue;
        };
        match found {
            [Err(first), Err(second)] => {
                assert_eq!(
                    [first, second],
                    [ErrorKind::DeviceLost, ErrorKind::DeviceLost]
                );
                seen[0] = true;
            }
            [Ok(_), Err(second)] => {
                assert_eq!(second, ErrorKind::DeviceLost);
                seen[1] = true;
            }
            [Ok(_), Ok(_)] => break,
            [Err(_), Ok(_)] => panic!("a step after a thread was gone"),
        }
    }
    assert_eq!(seen, [true; 2]);
}
