//! Every architecture on the GPU: golden checkpoints against Hugging Face.

use decant::exec::gpu::{Forms, GpuOptions};

use crate::{
    gpu,
    support::checkpoint::{self, CHECKPOINTS},
};

/// How many tests share the checkpoints, so that they run side by side.
const SHARES: usize = 3;

fn check(share: usize) {
    let mut faults = Vec::new();
    for name in CHECKPOINTS.iter().skip(share).step_by(SHARES) {
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

/// Each kind of operation once with what runs on a GPU that nobody has measured.
#[test]
fn what_is_meant_for_a_gpu_equals_hugging_face() {
    let options = GpuOptions {
        forms: Forms::Preferred,
        as_gpu: true,
        ..Default::default()
    };
    let mut faults = Vec::new();
    for name in ["gemma2", "gpt2", "lfm2", "olmoe", "qwen3"] {
        let model = checkpoint::files(name, "config.json").model().unwrap();
        if gpu(options).is_none() {
            return;
        }
        faults.extend(model.compare(name, || Box::new(gpu(options).unwrap())));
    }
    assert_eq!(faults, [""; 0]);
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
