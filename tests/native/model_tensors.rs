//! Tensors that cannot make a model's weights: each is refused by its own name, and what no model needs is
//! passed over.

use decant::{
    error::{Error, ErrorKind},
    model::{Graph, GraphOptions},
    ops::{
        Activation, BufferId, BufferSpec, CacheSpec, CacheType, Embed, Experts, Lookup, Op,
        Pairing, RotaryStore, Rotation, Rows, Shapes, WeightId,
    },
    tensor::{DType, WeightSpec},
    weights::{Value, gguf::Header},
};
use serde_json::json;

use crate::support::{
    checkpoint::{self, Files},
    convert,
    gguf::Gguf,
    golden::Checkpoint,
    safetensors::{Safetensors, Tensor},
};

/// The golden checkpoint `name` with its tensors changed.
fn changed(name: &str, change: impl FnOnce(&mut Safetensors)) -> Files {
    let mut files = checkpoint::files(name, "config.json");
    let mut weights = Safetensors::read(&files.weights[0]);
    change(&mut weights);
    files.weights[0] = weights.build();
    files
}

fn refused(files: &Files) -> Error {
    files.model().err().expect("the tensors were believed")
}

fn tensor<'a>(file: &'a mut Safetensors, name: &str) -> &'a mut Tensor {
    let mut tensors = file.tensors.iter_mut();
    tensors.find(|tensor| tensor.name == name).unwrap()
}

fn expert(number: usize, part: &str) -> String {
    format!("model.layers.0.mlp.experts.{number}.{part}.weight")
}

#[test]
fn experts_have_equal_rows() {
    // Together they have as many as they should.
    let files = changed("olmoe", |file| {
        for (number, rows) in [(0, 23), (1, 25)] {
            let gate = tensor(file, &expert(number, "gate_proj"));
            gate.shape[0] = rows;
            gate.data.resize(rows as usize * 32 * 4, 0);
        }
    });
    let error = refused(&files).to_string();
    assert!(error.contains(&expert(1, "gate_proj")), "{error}");
    assert!(error.contains("25") && error.contains("23"), "{error}");
}

#[test]
fn a_missing_expert_is_named() {
    for number in 0..4 {
        let name = expert(number, "up_proj");
        let files = changed("olmoe", |file| file.tensors.retain(|t| t.name != name));
        let error = refused(&files);
        let kind = ErrorKind::InvalidWeights { name: name.clone() };
        assert_eq!(error.kind(), &kind, "{error}");
        assert!(error.to_string().contains("missing"), "{error}");

        let files = changed("olmoe", |file| tensor(file, &name).dtype = "I8".into());
        let files = Files {
            weights: vec![{
                let mut weights = Safetensors::read(&files.weights[0]);
                let values = tensor(&mut weights, &name).shape.iter().product::<u64>();
                tensor(&mut weights, &name).data.truncate(values as usize);
                weights.build()
            }],
            ..files
        };
        let error = refused(&files);
        assert_eq!(error.kind(), &ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(&name), "{error}");
        assert!(error.to_string().contains("I8"), "{error}");
    }
}

#[test]
fn a_fused_tensor_of_a_gguf_file_is_missing_by_its_own_name() {
    for (name, whole) in [
        ("phi3", "blk.1.attn_qkv.weight"),
        ("gpt2", "blk.0.attn_qkv.weight"),
    ] {
        let mut checkpoint = convert::gguf(&checkpoint::files(name, "config.json"), None);
        checkpoint.tensors.retain(|(spec, _)| spec.name != whole);
        let error = graph(&checkpoint).err().unwrap().to_string();
        assert!(error.contains(whole), "{error}");
    }
}

#[test]
fn the_head_of_a_tied_model_is_needless_by_any_name() {
    let mut files = changed("gpt_neox", |_| ());
    let mut config: serde_json::Value = serde_json::from_slice(&files.config).unwrap();
    config["tie_word_embeddings"] = json!(true);
    files.config = config.to_string().into_bytes();
    let graph = files.model().unwrap().graph;
    let mut names = graph.stored().map(|(_, spec, _)| &spec.name);
    assert!(names.all(|name| !name.contains("embed_out")));
}

#[test]
fn what_no_model_needs_depends_on_the_family() {
    let with = |name: &str, extra: &str| {
        let tensor = |file: &mut Safetensors| {
            *file = std::mem::take(file).tensor(extra, "F32", &[2], vec![0; 8]);
        };
        changed(name, tensor).model().map(drop)
    };
    for (name, extra) in [
        ("llama", "model.layers.0.self_attn.rotary_emb.inv_freq"),
        (
            "gpt_neox",
            "gpt_neox.layers.0.attention.rotary_emb.inv_freq",
        ),
        ("gpt_neox", "gpt_neox.layers.1.attention.masked_bias"),
        ("gpt2", "transformer.h.0.attn.masked_bias"),
        ("gpt2-bare", "h.0.attn.bias"),
    ] {
        let already = Safetensors::read(&checkpoint::files(name, "config.json").weights[0]);
        if already.tensors.iter().all(|tensor| tensor.name != extra) {
            with(name, extra).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
    for (name, extra) in [
        ("llama", "model.layers.0.self_attn.attn.bias"),
        ("llama", "model.layers.0.attention.bias"),
        ("gpt2", "transformer.h.0.attn.rotary_emb.inv_freq"),
    ] {
        let error = with(name, extra).expect_err(extra).to_string();
        assert!(error.contains(extra), "{error}");
    }
}

fn graph(checkpoint: &Checkpoint) -> decant::error::Result<Graph> {
    Graph::from_index(checkpoint.index(), GraphOptions::default())
}

#[test]
fn a_slice_of_a_vector_holds_whole_blocks() {
    // 48 queries, 8 keys, 8 values: together two blocks of 32, none of them by itself.
    let mut checkpoint = convert::gguf(&checkpoint::files("phi3", "config.json"), None);
    for (key, value) in [
        ("attention.head_count", 6),
        ("attention.head_count_kv", 1),
        ("rope.dimension_count", 8),
    ] {
        let key = format!("phi3.{key}");
        checkpoint.metadata.insert(key, Value::Unsigned(value));
    }
    checkpoint.metadata.remove("phi3.rope.scaling.attn_factor");
    checkpoint
        .tensors
        .retain(|(spec, _)| !spec.name.starts_with("rope_factors"));
    for (spec, _) in &mut checkpoint.tensors {
        if spec.name.ends_with("attn_qkv.weight") {
            spec.rows = 64;
        }
    }
    graph(&checkpoint).unwrap();
    let bias = |dtype| WeightSpec {
        name: "blk.0.attn_qkv.bias".into(),
        dtype,
        rows: 1,
        columns: 64,
    };
    for (dtype, sound) in [
        (DType::F16, true),
        (DType::Q8_0, false),
        (DType::MXFP4, false),
    ] {
        let mut checkpoint = checkpoint.clone();
        checkpoint
            .tensors
            .push((bias(dtype), vec![0; bias(dtype).bytes()]));
        match graph(&checkpoint) {
            Ok(_) => assert!(sound, "{} was believed", dtype.name()),
            Err(error) => {
                assert!(!sound, "{error}");
                assert!(error.to_string().contains("blk.0.attn_qkv.bias"), "{error}");
            }
        }
    }
}

#[test]
fn sizes_whose_product_a_page_cannot_count_are_refused_by_key() {
    // Every size by itself is allowed.
    let mut checkpoint = convert::gguf(&checkpoint::files("qwen3_moe", "config.json"), None);
    for (key, value) in [
        ("expert_count", 4096u64),
        ("expert_feed_forward_length", 1 << 22),
    ] {
        let key = format!("qwen3moe.{key}");
        checkpoint.metadata.insert(key, Value::Unsigned(value));
    }
    let error = graph(&checkpoint).err().unwrap();
    let key = "qwen3moe.expert_feed_forward_length";
    let kind = ErrorKind::InvalidWeights { name: key.into() };
    assert_eq!(error.kind(), &kind, "{error}");

    let files = checkpoint::files("llama", "config.json");
    let with = |changes: serde_json::Value| {
        let mut config: serde_json::Value = serde_json::from_slice(&files.config).unwrap();
        for (key, value) in changes.as_object().unwrap() {
            config[key] = value.clone();
        }
        refused(&Files {
            config: config.to_string().into_bytes(),
            ..files.clone()
        })
    };
    let wide = json!({ "vocab_size": 1 << 22, "hidden_size": 1 << 22 });
    let kind = ErrorKind::InvalidWeights {
        name: "vocab_size".into(),
    };
    let error = with(wide);
    assert_eq!(error.kind(), &kind, "{error}");
}

#[test]
fn a_table_of_angles_that_a_page_cannot_count_is_refused_by_option() {
    let mut files = checkpoint::files("llama", "config.json");
    let mut config: serde_json::Value = serde_json::from_slice(&files.config).unwrap();
    config["max_position_embeddings"] = json!(u32::MAX);
    files.config = config.to_string().into_bytes();
    let options = GraphOptions {
        context_length: Some(u32::MAX as usize),
        quantise: None,
    };
    let error = Graph::from_index(files.model().unwrap().graph.index().clone(), options);
    let kind = ErrorKind::InvalidOption {
        name: "contextLength".into(),
    };
    assert_eq!(error.err().unwrap().kind(), &kind);
}

#[test]
fn a_tensor_of_more_values_than_a_page_can_count_is_refused() {
    // 2.8 GB of 2-bit blocks hold 2³³ values.
    let file = Gguf::new().blocks("wide", &[256, 1 << 25], DType::Q2_K, Vec::new());
    let error = Header::new(None).push(&file.build()).err().unwrap();
    assert_eq!(error.kind(), &ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("wide"), "{error}");
}

#[test]
fn weights_become_only_what_numbers_can_be_made_into() {
    let index = checkpoint::wide().model().unwrap().graph.index().clone();
    for dtype in DType::ALL {
        let options = GraphOptions {
            context_length: None,
            quantise: Some(dtype),
        };
        let graph = Graph::from_index(index.clone(), options);
        if [DType::Q8_0, DType::Q4_0].contains(&dtype) {
            graph.unwrap();
        } else {
            let kind = ErrorKind::InvalidOption {
                name: "quantize".into(),
            };
            let error = graph.err().unwrap_or_else(|| panic!("{}", dtype.name()));
            assert_eq!(error.kind(), &kind, "{error}");
        }
    }
}

#[test]
fn shapes_of_weights_that_are_not_there_are_an_error() {
    let buffer = |columns| BufferSpec {
        name: "x".into(),
        rows: Rows::Tokens,
        columns,
    };
    let buffers = [buffer(8), buffer(8), buffer(64)];
    let cache = CacheSpec {
        layers: 1,
        kv_heads: 1,
        head_dim: 8,
        conv_layers: 0,
        conv_width: 1,
        dtype: CacheType::F32,
        page_size: 4,
        pages: 1,
    };
    let shapes = Shapes {
        buffers: &buffers,
        weights: &[],
        cache: &cache,
    };
    let (x, nothing) = (BufferId(0), WeightId(7));
    let embed = Op::Embed(Embed {
        weight: nothing,
        lookup: Lookup::Token,
        scale: 1.0,
        add: false,
        out: x,
    });
    let rotary = Op::RotaryStore(RotaryStore {
        q: x,
        k: x,
        v: x,
        rotation: Some(Rotation {
            table: nothing,
            pairing: Pairing::Halves,
            dims: 4,
        }),
        layer: 0,
        heads: 1,
    });
    let experts = Op::Experts(Experts {
        x,
        route: BufferId(1),
        experts: 2,
        gate: nothing,
        up: nothing,
        down: nothing,
        activation: Activation::Silu,
        gated: BufferId(2),
        out: x,
    });
    for op in [embed, rotary, experts] {
        let error = op.check(&shapes).unwrap_err();
        assert!(error.to_string().contains("no weight 7"), "{error}");
    }
}
