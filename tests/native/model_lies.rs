//! Headers whose numbers cannot be a model's, and output matrices that are there or not.

use decant::{
    error::{Error, ErrorKind},
    exec::{Executor, Reference, TapeId},
    model::{Graph, GraphOptions},
    weights::Value,
};
use pollster::block_on;
use serde_json::json;

use crate::support::{
    checkpoint::{self, Model, distance, step},
    golden::{self, Checkpoint},
};

fn graph(checkpoint: &Checkpoint) -> decant::error::Result<Graph> {
    Graph::from_index(checkpoint.index(), GraphOptions::default())
}

/// What a Llama with this value of a key is refused with.
fn refused(key: &str, value: u64) -> Error {
    let mut checkpoint = golden::checkpoint("llama");
    let key = format!("llama.{key}");
    assert!(checkpoint.metadata.contains_key(&key), "{key}");
    checkpoint.metadata.insert(key, Value::Unsigned(value));
    graph(&checkpoint).err().expect("refused")
}

#[test]
fn sizes_that_cannot_be_are_refused_by_key_or_tensor() {
    for (key, value, name) in [
        ("block_count", 513, "blk.3."),
        ("block_count", 1 << 31, "llama.block_count"),
        ("block_count", 1 << 40, "llama.block_count"),
        ("block_count", 4, "blk.3."),
        ("attention.head_count", 0, "llama.attention.head_count"),
        ("attention.head_count_kv", 0, "llama.attention.head_count"),
        ("attention.head_count_kv", 3, "llama.attention.head_count"),
        ("attention.key_length", 1 << 31, "llama.attention"),
        ("embedding_length", 0, "llama.embedding_length"),
        ("embedding_length", u64::MAX, "llama.embedding_length"),
        ("feed_forward_length", 0, "llama.feed_forward_length"),
        ("vocab_size", 0, "llama.vocab_size"),
        ("context_length", 0, "llama.context_length"),
    ] {
        let error = refused(key, value);
        let about = match error.kind() {
            ErrorKind::InvalidWeights { name } => name.clone(),
            ErrorKind::InvalidOption { .. } | ErrorKind::Unsupported => error.to_string(),
            other => panic!("{key} = {value}: {other:?}, {error}"),
        };
        assert!(about.contains(name), "{key} = {value}: {about}: {error}");
    }
    // Heads that share keys in unequal groups.
    let mut checkpoint = golden::checkpoint("llama");
    for (key, value) in [("head_count", 6), ("head_count_kv", 4)] {
        let key = format!("llama.attention.{key}");
        checkpoint.metadata.insert(key, Value::Unsigned(value));
    }
    let error = graph(&checkpoint).err().unwrap();
    assert!(error.to_string().contains("head_count"), "{error}");
}

/// Logits of the first golden prompt of `name`.
fn logits(name: &str, model: &Model) -> Vec<f32> {
    let ids = &golden::forward(name)[0].input_ids;
    let mut executor = Reference::new();
    let rows = ids.len();
    model.prepare(&mut executor, vec![model.graph.tape(rows, rows).unwrap()]);
    block_on(executor.forward(TapeId(0), &step(ids, 0, rows))).unwrap()
}

fn gguf(checkpoint: &Checkpoint) -> Model {
    Model {
        graph: graph(checkpoint).unwrap(),
        tensors: checkpoint.bytes(),
    }
}

#[test]
fn a_gguf_file_without_output_uses_the_embedding() {
    let mut tied = golden::checkpoint("llama-tied");
    let expected = &golden::forward("llama-tied")[0].logits;
    let without = gguf(&tied);
    assert!(distance(&logits("llama-tied", &without), expected) < 1.0);
    let (mut spec, bytes) = tied
        .tensors
        .iter()
        .find(|(spec, _)| spec.name == "token_embd.weight")
        .unwrap()
        .clone();
    spec.name = "output.weight".into();
    tied.tensors.push((spec, bytes));
    let with = gguf(&tied);
    assert_eq!(logits("llama-tied", &with), logits("llama-tied", &without));
    // One copy where there is one.
    assert_eq!(with.graph.weights.len(), without.graph.weights.len() + 1);

    // Another head is used, and its absence is seen.
    let mut untied = golden::checkpoint("llama");
    let own = logits("llama", &gguf(&untied));
    assert!(distance(&own, &golden::forward("llama")[0].logits) < 1.0);
    let before = untied.tensors.len();
    untied
        .tensors
        .retain(|(spec, _)| spec.name != "output.weight");
    assert_eq!(untied.tensors.len(), before - 1);
    assert!(distance(&logits("llama", &gguf(&untied)), &own) > 1.0);
}

#[test]
fn a_checkpoint_is_tied_as_its_config_says() {
    let with = |name: &str, flag: Option<bool>| {
        let mut files = checkpoint::files(name, "config.json");
        let mut config: serde_json::Value = serde_json::from_slice(&files.config).unwrap();
        let config = config.as_object_mut().unwrap();
        config.remove("tie_word_embeddings");
        if let Some(flag) = flag {
            config.insert("tie_word_embeddings".into(), json!(flag));
        }
        files.config = serde_json::to_vec(config).unwrap();
        files.model()
    };
    let expected = &golden::forward("llama-tied")[0].logits;
    let tied = with("llama-tied", Some(true)).unwrap();
    assert!(distance(&logits("llama-tied", &tied), expected) < 1.0);
    // Untied without a head: an error, before any weight is read.
    let error = with("llama-tied", Some(false)).err().unwrap();
    assert!(error.to_string().contains("tie_word_embeddings"), "{error}");
    let untied = with("llama", Some(false)).unwrap();
    let own = logits("llama", &untied);
    assert!(distance(&own, &golden::forward("llama")[0].logits) < 1.0);
    // Without the flag, a head that is there is used.
    let absent = with("llama", None).unwrap();
    assert_eq!(logits("llama", &absent), own);
}
