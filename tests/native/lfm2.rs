//! Layers that convolve: what they leave in the cache belongs to its position, whatever becomes of a sequence.

use decant::{
    error::ErrorKind,
    exec::{Activations, Cpu, Reference},
    generation::{Engine, Output},
    load::LoadOptions,
    model::{Graph, GraphOptions, ModelConfig, describe},
    ops::CacheType,
    weights::{Format, Metadata, Value},
};
use serde_json::{Value as Json, json};

use crate::support::{
    branches, checkpoint, convert, generate,
    golden_engine::engine,
    loops::{assisted, output, with},
    safetensors::Safetensors,
    short_conv::{check, sweep},
};

#[test]
fn the_operation_gives_the_formula() {
    sweep(|case| {
        check(&mut Reference::new(), "reference", case);
        check(&mut Cpu::new(Activations::F32), "cpu", case);
    });
}

#[test]
fn rewinds_and_forks_go_on_from_their_own_positions() {
    for name in ["lfm2", "llama"] {
        let model = checkpoint::files(name, "config.json").model().unwrap();
        let mut faults = branches::compare(name, &model, &mut Reference::new());
        faults.extend(branches::compare(
            name,
            &model,
            &mut Cpu::new(Activations::F32),
        ));
        assert_eq!(faults, [""; 0]);
    }
}

fn cpu_engine(kv_cache: CacheType) -> Engine {
    let options = LoadOptions {
        kv_cache,
        ..LoadOptions::default()
    };
    let cpu = Box::new(Cpu::new(Activations::F32));
    let files = checkpoint::files("lfm2", "config.json");
    files.engine(cpu, options, 1000).unwrap()
}

#[test]
fn answers_on_the_cpu_equal_hugging_face() {
    assert_eq!(generate::check("lfm2", &cpu_engine(CacheType::F32)), 5);
}

/// What a call on each of these prompts gives.
fn answers(engine: &Engine, prompts: &Json, config: &Json) -> Vec<Vec<u32>> {
    output(engine, prompts.clone(), config.clone()).sequences
}

const PROMPT: [u32; 14] = [75, 275, 78, 265, 324, 256, 75, 275, 78, 265, 9, 75, 275, 78];

#[test]
fn rejected_drafts_leave_nothing_behind() {
    let (mut drafted, mut accepted) = (0, 0);
    let mut count = |output: &Output| {
        let speculation = output.speculation.as_ref().unwrap();
        drafted += speculation.drafted;
        accepted += speculation.accepted;
    };
    let engine = engine("lfm2");
    let assistant = cpu_engine(CacheType::F32);
    for length in 3..PROMPT.len() {
        let prompt = &PROMPT[..length];
        let config = json!({ "max_new_tokens": 14 });
        let plain = answers(&engine, &json!([prompt]), &config);
        for ngram in [1, 2] {
            let lookup = json!({ "prompt_lookup_num_tokens": 5, "max_matching_ngram_size": ngram });
            let found = output(&engine, json!([prompt]), with(&config, lookup));
            assert_eq!(found.sequences, plain, "{prompt:?}");
            count(&found);
        }
        let drafts = with(&config, json!({ "num_assistant_tokens": 4 }));
        let found = assisted(&engine, &assistant, prompt, &drafts.into());
        assert_eq!(found.sequences, plain, "{prompt:?}");
        count(&found);
    }
    assert!(
        accepted > 50 && drafted > accepted + 50,
        "{accepted} of {drafted}"
    );
}

#[test]
fn several_answers_and_ragged_rows_are_those_without_a_cache() {
    let engine = engine("lfm2");
    let without = |config: &Json| with(config, json!({ "use_cache": false }));
    let sampled = json!({
        "max_new_tokens": 10, "do_sample": true, "temperature": 1.5, "seed": 3, "num_return_sequences": 3,
    });
    let beams = json!({ "max_new_tokens": 10, "num_beams": 3, "num_return_sequences": 3 });
    for length in [1, 5, 8, 11] {
        for config in [&sampled, &beams] {
            let prompt = json!([PROMPT[..length]]);
            let found = answers(&engine, &prompt, config);
            assert_eq!(found, answers(&engine, &prompt, &without(config)));
            assert!(found[0] != found[1] && found[1] != found[2]);
        }
    }
    let ragged = json!([PROMPT[..9], PROMPT[..1], PROMPT[4..], PROMPT[2..4]]);
    let config = json!({ "max_new_tokens": 12 });
    let together = answers(&engine, &ragged, &config);
    for (prompt, found) in ragged.as_array().unwrap().iter().zip(together) {
        assert_eq!(
            answers(&engine, &json!([prompt]), &without(&config)),
            [found]
        );
    }
}

#[test]
fn the_cache_takes_what_its_layers_need() {
    let graph = checkpoint::files("lfm2", "config.json")
        .model()
        .unwrap()
        .graph;
    let (pages, page) = (5, 8);
    // A layer of attention with a head of 16 for keys and for values, and two that convolve 32 channels.
    let values = pages * page * (2 * 16 + 2 * 32);
    let bytes = |dtype| graph.cache(dtype, page, pages).bytes();
    assert_eq!(bytes(CacheType::F32), 4 * values as u64);
    assert_eq!(bytes(CacheType::F16), 2 * values as u64);
    let reserved = |kv_cache| cpu_engine(kv_cache).stats().cache_bytes_reserved;
    assert_eq!(reserved(CacheType::F32), 2 * reserved(CacheType::F16));
}

/// The golden `config.json` after some changes: null takes a key away.
fn configured(changes: Json) -> decant::error::Result<ModelConfig> {
    let mut config: Json =
        serde_json::from_slice(&checkpoint::files("lfm2", "config.json").config).unwrap();
    let keys = config.as_object_mut().unwrap();
    for (key, value) in changes.as_object().unwrap() {
        match value {
            Json::Null => keys.remove(key),
            value => keys.insert(key.clone(), value.clone()),
        };
    }
    let metadata = Metadata::from_json("config.json", config.to_string().as_bytes())?;
    describe(&metadata, Format::Checkpoint).map(|(_, config)| config)
}

#[test]
fn constants_by_the_names_of_the_first_releases() {
    let first = json!({
        "block_auto_adjust_ff_dim": true, "block_dim": 32, "block_ff_dim": 700, "block_norm_eps": 1e-5,
        "block_use_swiglu": true, "conv_dim": 32, "num_heads": 2, "tie_embedding": true, "theta": 5e5,
        "intermediate_size": null, "rope_parameters": null, "tie_word_embeddings": null,
        "layer_types": null, "full_attn_idxs": [1],
    });
    let config = configured(first).unwrap();
    // Two thirds are 466.
    assert_eq!((config.intermediate, config.ropes[0].theta), (512, 5e5));
    assert_eq!(config.layers, configured(json!({})).unwrap().layers);
    let convolves: Vec<_> = config.layers.iter().map(|layer| layer.convolves).collect();
    assert_eq!(convolves, [true, false, true]);
    let absent = json!({
        "block_auto_adjust_ff_dim": null, "intermediate_size": null, "conv_L_cache": null,
        "norm_eps": null, "rope_parameters": null, "num_key_value_heads": null, "num_attention_heads": 8,
    });
    let config = configured(absent).unwrap();
    assert_eq!(
        (config.intermediate, config.taps, config.kv_heads),
        (8192, 3, 8)
    );
    assert_eq!((config.ropes[0].theta, config.norm.epsilon), (1e6, 1e-5));
    let factor = |factor: f64| {
        let config = configured(json!({
            "block_auto_adjust_ff_dim": true, "intermediate_size": 96, "block_multiple_of": 8,
            "block_ffn_dim_multiplier": factor,
        }));
        config.unwrap().intermediate
    };
    assert_eq!((factor(1.0), factor(1.3)), (64, 88));
    // Without either list all layers are attention.
    let config = configured(json!({ "layer_types": null })).unwrap();
    assert!(config.layers.iter().all(|layer| !layer.convolves));
}

#[test]
fn what_contradicts_itself_or_is_unknown_is_refused_by_name() {
    let types = |types: &[&str]| json!({ "layer_types": types });
    let listed = json!({ "full_attn_idxs": [0] });
    for (changes, key) in [
        (types(&["conv", "full_attention"]), "layer_types"),
        (types(&["conv", "full_attention", "mamba"]), "mamba"),
        (listed, "full_attn_idxs"),
        (json!({ "conv_L_cache": 0 }), "conv_L_cache"),
        (json!({ "conv_L_cache": u32::MAX }), "conv_L_cache"),
        (json!({ "block_multiple_of": 0 }), "block_multiple_of"),
        (
            json!({ "block_auto_adjust_ff_dim": true, "block_ffn_dim_multiplier": 1e30 }),
            "intermediate_size",
        ),
        (json!({ "theta": 5.0 }), "theta"),
    ] {
        match configured(changes.clone()) {
            Ok(_) => panic!("{changes} was believed"),
            Err(error) => assert!(error.to_string().contains(key), "{changes}: {error}"),
        }
    }
    // These are compared with the tensors.
    for (key, value) in [("conv_bias", true), ("tie_embedding", false)] {
        let mut files = checkpoint::files("lfm2", "config.json");
        let mut config: Json = serde_json::from_slice(&files.config).unwrap();
        config[key] = value.into();
        files.config = config.to_string().into_bytes();
        let error = files.model().err().unwrap().to_string();
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn whether_convolutions_have_biases_is_told_by_any_layer() {
    for flag in [true, false] {
        let mut files = checkpoint::files("lfm2", "config.json");
        let mut config: Json = serde_json::from_slice(&files.config).unwrap();
        config["layer_types"] = json!(["full_attention", "conv", "conv"]);
        config["conv_bias"] = flag.into();
        files.config = config.to_string().into_bytes();
        // The golden's first layers in the other order, and biases where there were none.
        let mut weights = Safetensors::read(&files.weights[0]);
        for tensor in &mut weights.tensors {
            let parts = tensor.name.split('.').map(|part| match part {
                "0" => "1",
                "1" => "0",
                other => other,
            });
            tensor.name = parts.collect::<Vec<_>>().join(".");
        }
        for layer in [1, 2] {
            let name = format!("model.layers.{layer}.conv.conv.bias");
            weights = weights.tensor(&name, "F32", &[32], vec![0; 128]);
        }
        files.weights = vec![weights.build()];
        let error = files.model().err().map(|error| error.to_string());
        match flag {
            true => assert_eq!(error, None),
            false => assert!(error.unwrap().contains("conv_bias")),
        }
    }
}

#[test]
fn gguf_files_list_key_value_heads_layer_by_layer() {
    let heads = |heads: Value| {
        let files = checkpoint::files("lfm2", "config.json");
        let mut checkpoint = convert::gguf(&files, None);
        let key = "lfm2.attention.head_count_kv".to_owned();
        checkpoint.metadata.insert(key, heads);
        Graph::from_index(checkpoint.index(), GraphOptions::default()).map(|graph| graph.config)
    };
    let listed = |list: &[i64]| heads(Value::Integers(list.to_vec()));
    let convolves = listed(&[0, 1, 0]).unwrap().layers;
    let convolves: Vec<_> = convolves.iter().map(|layer| layer.convolves).collect();
    assert_eq!(convolves, [true, false, true]);
    for (list, part) in [
        (&[0, 1][..], "2 numbers for 3 layers"),
        (&[2, 1, 0], "2 and 1"),
        (&[0, -1, 0], "-1"),
        (&[0, 0, 0], "head_count_kv"),
        (&[1, 1, 1], "attn_q"),
    ] {
        let error = listed(list).unwrap_err().to_string();
        assert!(error.contains(part), "{list:?}: {error}");
    }
    // One number stands for all layers, none of which convolves then.
    let error = heads(Value::Unsigned(1)).unwrap_err().to_string();
    assert!(error.contains("blk.0.attn_q"), "{error}");
    // No other family has such a list.
    let mut other = convert::gguf(&checkpoint::files("qwen3", "config.json"), None);
    let key = "qwen3.attention.head_count_kv".to_owned();
    other.metadata.insert(key, Value::Integers(vec![1, 0]));
    let error = Graph::from_index(other.index(), GraphOptions::default());
    let error = error.err().unwrap();
    assert!(
        matches!(error.kind(), ErrorKind::InvalidWeights { .. }),
        "{error}"
    );
}
