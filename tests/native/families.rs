//! Every architecture: golden checkpoints against Hugging Face, and the same models as GGUF.

use decant::{
    exec::{Activations, Cpu, Executor, Reference, TapeId},
    model::{Graph, GraphOptions},
    tensor::DType,
};
use pollster::block_on;

use crate::support::{
    checkpoint::{self, CHECKPOINTS, Model, distance, step},
    convert, generate,
    golden::{self, Checkpoint},
    golden_engine,
};

#[test]
fn logits_and_every_layer_equal_hugging_face() {
    let faults = CHECKPOINTS.iter().flat_map(|name| {
        let model = checkpoint::files(name, "config.json").model();
        match model {
            Ok(model) => model.compare(name, || Box::new(Reference::new())),
            Err(error) => vec![format!("{name}: {error}")],
        }
    });
    assert_eq!(faults.collect::<Vec<_>>(), [""; 0]);
}

/// Checkpoints with a window in all layers or in some, and its size.
const WINDOWS: [(&str, usize); 3] = [("mistral", 8), ("gemma2", 6), ("gemma3", 6)];

#[test]
fn a_window_slides_alike_however_a_prompt_is_cut() {
    let mut faults = Vec::new();
    for (name, window) in WINDOWS {
        let model = checkpoint::files(name, "config.json").model().unwrap();
        faults.extend(model.compare_windows(name, window, &mut Reference::new()));
        faults.extend(model.compare_windows(name, window, &mut Cpu::new(Activations::F32)));
    }
    assert_eq!(faults, [""; 0]);
}

#[test]
fn both_spellings_describe_one_model() {
    for name in CHECKPOINTS {
        let [new, old] = ["config.json", "config.legacy.json"].map(|spelling| {
            let model = checkpoint::files(name, spelling).model();
            model.unwrap_or_else(|error| panic!("{name}, {spelling}: {error}"))
        });
        assert_eq!(new.graph.config, old.graph.config, "{name}");
        assert_eq!(new.graph.weights, old.graph.weights, "{name}");
        assert_eq!(new.graph.tape(3, 2).unwrap(), old.graph.tape(3, 2).unwrap());
    }
}

#[test]
fn answers_equal_hugging_face() {
    // The draft has no calls of its own.
    let called = CHECKPOINTS.iter().filter(|name| **name != "llama-draft");
    let passed = called.map(|name| generate::check(name, &golden_engine::engine(name)));
    assert_eq!(passed.sum::<usize>(), 436);
}

fn model(checkpoint: &Checkpoint) -> Model {
    let graph = Graph::from_index(checkpoint.index(), GraphOptions::default());
    Model {
        graph: graph.unwrap_or_else(|error| panic!("{:?}: {error}", checkpoint.metadata)),
        tensors: checkpoint.bytes(),
    }
}

#[test]
fn gguf_gives_the_same_logits() {
    let mut faults = Vec::new();
    for name in CHECKPOINTS {
        let files = checkpoint::files(name, "config.json");
        // GGUF files of SmolLM 3 cannot say which layers do not rotate; it is every fourth.
        if name != "smollm3" {
            let model = model(&convert::gguf(&files, None));
            faults.extend(model.compare(name, || Box::new(Reference::new())));
        }
    }
    assert_eq!(faults, [""; 0]);
}

/// Logits of the model's first golden prompt.
fn logits(name: &str, model: &Model) -> Vec<f32> {
    let ids = &golden::forward(name)[0].input_ids;
    let mut executor = Reference::new();
    let rows = ids.len();
    model.prepare(&mut executor, vec![model.graph.tape(rows, rows).unwrap()]);
    block_on(executor.forward(TapeId(0), &step(ids, 0, rows))).unwrap()
}

#[test]
fn smollm3_rotates_three_layers_of_four_in_gguf() {
    let mut files = checkpoint::files("smollm3", "config.json");
    let gguf = model(&convert::gguf(&files, None));
    let mut config: serde_json::Value = serde_json::from_slice(&files.config).unwrap();
    config["no_rope_layers"] = serde_json::json!([1, 1, 1, 0]);
    files.config = config.to_string().into_bytes();
    let other = files.model().unwrap();
    let off = distance(&logits("smollm3", &gguf), &logits("smollm3", &other));
    assert!(off < 0.1, "{off}");
}

#[test]
fn quantised_gguf_gives_the_logits_of_its_values() {
    let mut compared = 0;
    for name in ["stablelm", "olmoe", "qwen3_moe"] {
        let files = checkpoint::files(name, "config.json");
        for dtype in [DType::Q8_0, DType::Q4_0, DType::F16] {
            let quantised = convert::gguf(&files, Some(dtype));
            compared += quantised
                .tensors
                .iter()
                .filter(|(spec, _)| spec.dtype == dtype)
                .count();
            let plain = convert::plain(&quantised);
            let (found, expected) = (
                logits(name, &model(&quantised)),
                logits(name, &model(&plain)),
            );
            let off = distance(&found, &expected);
            assert!(off < 0.1, "{name}, {}: {off}", dtype.name());
            let exact = logits(name, &files.model().unwrap());
            assert!(
                distance(&found, &exact) > 0.1,
                "{name}, {}: nothing was rounded",
                dtype.name()
            );
        }
    }
    assert!(compared > 50, "{compared} quantised tensors");
}
