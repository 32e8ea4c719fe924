//! Constants in GGUF files: each that changes an answer is honoured or refused by name, and what llama.cpp's
//! converter leaves to tensors is read there.

use decant::{
    error::ErrorKind,
    model::{Factors, Graph, GraphOptions, Scaling},
    weights::Value,
};

use crate::support::{checkpoint, convert, golden::Checkpoint};

/// The golden checkpoint `name` as a GGUF file would hold it, with these keys of its architecture set.
fn gguf(name: &str, changes: &[(&str, Option<Value>)]) -> Checkpoint {
    let mut checkpoint = convert::gguf(&checkpoint::files(name, "config.json"), None);
    let Value::String(architecture) = checkpoint.metadata["general.architecture"].clone() else {
        panic!("{name} has no architecture");
    };
    for (key, value) in changes {
        let key = format!("{architecture}.{key}");
        match value {
            Some(value) => checkpoint.metadata.insert(key, value.clone()),
            None => checkpoint.metadata.remove(&key),
        };
    }
    checkpoint
}

fn graph(checkpoint: &Checkpoint) -> decant::error::Result<Graph> {
    Graph::from_index(checkpoint.index(), GraphOptions::default())
}

/// What the GGUF form of `name` with one key set is refused with.
fn refused(name: &str, key: &str, value: Value) -> String {
    let error = match graph(&gguf(name, &[(key, Some(value))])) {
        Ok(_) => panic!("{name}: {key} was believed"),
        Err(error) => error,
    };
    assert_eq!(error.kind(), &ErrorKind::Unsupported, "{error}");
    error.to_string()
}

#[test]
fn keys_of_the_mathematics_that_nobody_reads_are_refused_in_gguf() {
    let window = || Value::Unsigned(64);
    for (name, key, value) in [
        // What tells OLMo 3 from OLMo 2.
        ("olmo2", "attention.sliding_window", window()),
        ("qwen2", "attention.sliding_window", window()),
        ("llama", "attention.clamp_kqv", Value::Float(8.0)),
        ("llama", "attention.causal", Value::Bool(false)),
        ("llama", "logit_scale", Value::Float(0.5)),
        ("llama", "use_parallel_residual", Value::Bool(true)),
        ("llama", "expert_count", Value::Unsigned(8)),
        ("llama", "rope.scaling.attn_factor", Value::Float(1.2)),
        ("qwen3_moe", "expert_gating_func", Value::Unsigned(2)),
        ("qwen3_moe", "expert_shared_count", Value::Unsigned(1)),
        ("granite", "rope.scaling.finetuned", Value::Bool(false)),
        ("llama", "some_new_idea", Value::String("yes".into())),
    ] {
        let error = refused(name, key, value);
        assert!(error.contains(key), "{error}\nlacks {key}");
    }
}

#[test]
fn keys_that_change_nothing_are_no_obstacle_in_gguf() {
    let neutral = [
        (
            "tensor_data_layout",
            Value::String("Meta AI original pth".into()),
        ),
        ("expert_count", Value::Unsigned(0)),
        ("expert_used_count", Value::Unsigned(0)),
        ("attention.causal", Value::Bool(true)),
        ("logit_scale", Value::Float(1.0)),
        ("residual_scale", Value::Float(1.0)),
        ("use_parallel_residual", Value::Bool(false)),
        ("rope.scaling.type", Value::String("none".into())),
        ("rope.scaling.factor", Value::Float(8.0)),
        ("rope.scaling.original_context_length", Value::Unsigned(32)),
        ("rope.scaling.finetuned", Value::Bool(true)),
        ("attention.layer_norm_epsilon", Value::Float(1e-5)),
    ];
    let changes = neutral.map(|(key, value)| (key, Some(value)));
    let plain = graph(&gguf("llama", &[])).unwrap().config;
    assert_eq!(graph(&gguf("llama", &changes)).unwrap().config, plain);
}

#[test]
fn a_window_of_zero_is_none_in_gguf() {
    for name in ["mistral", "gemma2", "phi3", "olmo2", "qwen3"] {
        let zero = [("attention.sliding_window", Some(Value::Unsigned(0)))];
        let config = graph(&gguf(name, &zero)).unwrap().config;
        let windows = config.layers.iter().filter(|layer| layer.window.is_some());
        assert_eq!(windows.count(), 0, "{name}");
    }
}

#[test]
fn an_unnamed_factor_scales_positions_in_gguf() {
    let checkpoint = gguf("llama-linear", &[("rope.scaling.type", None)]);
    let scaling = &graph(&checkpoint).unwrap().config.ropes[0].scaling;
    assert_eq!(scaling, &Scaling::Linear(2.5));
}

#[test]
fn phi3_files_show_their_long_factors_by_tensors() {
    let checkpoint = gguf("phi3", &[]);
    assert!(!checkpoint.metadata.contains_key("phi3.rope.scaling.type"));
    let graph = graph(&checkpoint).unwrap();
    let Scaling::Long {
        short,
        long,
        original,
        attention,
    } = &graph.config.ropes[0].scaling
    else {
        panic!("{:?}", graph.config.ropes[0]);
    };
    assert_eq!(short, &Factors::Tensor("rope_factors_short.weight"));
    assert_eq!(long, &Factors::Tensor("rope_factors_long.weight"));
    assert_eq!(*original, 16);
    let growth = 64f64 / 16.0;
    let expected = (1.0 + growth.ln() / 16f64.ln()).sqrt();
    assert!((f64::from(*attention) - expected).abs() < 1e-6);
    // Without factors, the original length means nothing.
    let mut short = checkpoint.clone();
    short
        .tensors
        .retain(|(spec, _)| !spec.name.starts_with("rope_factors"));
    short.metadata.remove("phi3.rope.scaling.attn_factor");
    let config = self::graph(&short).unwrap().config;
    assert_eq!(config.ropes[0].scaling, Scaling::None);
}

#[test]
fn stablelm_files_show_parallel_parts_by_tensors() {
    // llama.cpp's converter writes true where config.json says nothing.
    for said in [true, false] {
        let said = [("use_parallel_residual", Some(Value::Bool(said)))];
        let mut checkpoint = gguf("stablelm", &said);
        assert!(!graph(&checkpoint).unwrap().config.parallel);
        let second =
            |name: &str| name.ends_with("ffn_norm.weight") || name.ends_with("ffn_norm.bias");
        checkpoint.tensors.retain(|(spec, _)| !second(&spec.name));
        assert!(graph(&checkpoint).unwrap().config.parallel);
    }
}
