//! Every architecture: golden checkpoints against Hugging Face, and the same models as GGUF.

use decant::exec::Reference;

use crate::support::{checkpoint, generate, golden_engine};

/// A golden checkpoint of each family and feature.
const CHECKPOINTS: [&str; 24] = [
    "cohere",
    "gemma2",
    "gemma3",
    "gpt2",
    "gpt2-bare",
    "gpt_neox",
    "granite",
    "llama",
    "llama-bf16",
    "llama-draft",
    "llama-linear",
    "llama-llama3",
    "llama-tied",
    "llama-yarn",
    "mistral",
    "olmo2",
    "olmoe",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen3-f16",
    "qwen3_moe",
    "smollm3",
    "stablelm",
];

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
    let (mut passed, mut refused) = (0, 0);
    // The draft has no calls of its own.
    let calls = CHECKPOINTS.into_iter();
    for name in calls.filter(|name| !["llama-draft", "phi3"].contains(name)) {
        let counts = generate::run(name, &golden_engine::engine(name));
        println!(
            "{name}: {} passed, {} refused",
            counts.passed,
            counts.refused.len()
        );
        assert_eq!(counts.failed, [""; 0], "{name}");
        assert!(counts.passed > 0, "{name}: {counts:?}");
        passed += counts.passed;
        refused += counts.refused.len();
    }
    println!("generate: {passed} passed, {refused} refused");
}
