//! Every architecture on the GPU: golden checkpoints against Hugging Face.

use decant::exec::gpu::GpuOptions;

use crate::{gpu, support::checkpoint};

/// A golden checkpoint of each family and feature, in groups that take about as long.
const CHECKPOINTS: [&[&str]; 3] = [
    &[
        "cohere",
        "cohere-qk",
        "gemma",
        "gemma2",
        "gemma3",
        "gpt2",
        "gpt2-bare",
        "gpt_neox",
        "granite",
        "llama",
    ],
    &[
        "llama-bf16",
        "llama-draft",
        "llama-linear",
        "llama-llama3",
        "llama-tied",
        "llama-yarn",
        "mistral",
        "olmo2",
    ],
    &[
        "lfm2",
        "olmoe",
        "phi3",
        "qwen2",
        "qwen3",
        "qwen3-f16",
        "qwen3_moe",
        "smollm3",
        "stablelm",
        "stablelm-qk",
    ],
];

fn check(group: usize) {
    let mut faults = Vec::new();
    for name in CHECKPOINTS[group] {
        let model = checkpoint::files(name, "config.json").model().unwrap();
        if gpu(GpuOptions::default()).is_none() {
            return;
        }
        faults.extend(model.compare(name, || Box::new(gpu(GpuOptions::default()).unwrap())));
    }
    assert_eq!(faults, [""; 0]);
}

#[test]
fn logits_and_every_layer_equal_hugging_face_1() {
    check(0);
}

#[test]
fn logits_and_every_layer_equal_hugging_face_2() {
    check(1);
}

#[test]
fn logits_and_every_layer_equal_hugging_face_3() {
    check(2);
}

#[test]
fn a_window_slides_alike_however_a_prompt_is_cut() {
    let mut faults = Vec::new();
    for (name, window) in [("mistral", 8), ("gemma2", 6), ("gemma3", 6)] {
        let model = checkpoint::files(name, "config.json").model().unwrap();
        let Some(mut gpu) = gpu(GpuOptions::default()) else {
            return;
        };
        faults.extend(model.compare_windows(name, window, &mut gpu));
    }
    assert_eq!(faults, [""; 0]);
}
