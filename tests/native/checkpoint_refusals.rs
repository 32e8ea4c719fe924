//! Checkpoints that this code cannot run as they ask: each is refused by name, before any weight is read.

use decant::{
    error::{Error, ErrorKind},
    exec::Reference,
    load::{LoadOptions, Loader, check_config},
};
use serde_json::{Map, Value, json};

use crate::support::{
    checkpoint::{self, Files},
    safetensors::Safetensors,
};

fn config() -> Map<String, Value> {
    let files = checkpoint::files("llama", "config.json");
    serde_json::from_slice(&files.config).unwrap()
}

/// The error of `config.json` with these changes; null takes a key away.
fn refusal(changes: Value) -> Error {
    let mut config = config();
    for (key, value) in changes.as_object().unwrap() {
        config.insert(key.clone(), value.clone());
    }
    let text = serde_json::to_vec(&config).unwrap();
    check_config(&text).expect_err("a configuration was believed")
}

fn unsupported(changes: Value, what: &[&str]) {
    let error = refusal(changes);
    assert_eq!(error.kind(), &ErrorKind::Unsupported, "{error}");
    for what in what {
        assert!(error.to_string().contains(what), "{error}\nlacks {what}");
    }
}

fn invalid(changes: Value, name: &str) {
    let error = refusal(changes);
    let kind = ErrorKind::InvalidWeights { name: name.into() };
    assert_eq!(error.kind(), &kind, "{error}");
}

#[test]
fn the_configuration_itself_is_sound() {
    check_config(&serde_json::to_vec(&config()).unwrap()).unwrap();
}

#[test]
fn what_is_not_supported_is_named() {
    unsupported(json!({ "model_type": "bert" }), &["bert", "llama"]);
    unsupported(
        json!({ "hidden_act": "mish" }),
        &["hidden_act", "mish", "silu"],
    );
    let rope = |rope_type: &str| json!({ "rope_theta": 10000.0, "rope_type": rope_type });
    unsupported(
        json!({ "rope_parameters": rope("alien") }),
        &["rope_parameters.rope_type", "alien"],
    );
    unsupported(json!({ "logit_scale": 0.5 }), &["logit_scale", "0.5", "1"]);
    unsupported(
        json!({ "attn_logit_softcapping": 30 }),
        &["attn_logit_softcapping", "30"],
    );
    unsupported(json!({ "no_rope_layers": [1, 0] }), &["no_rope_layers"]);
    unsupported(
        json!({ "use_parallel_residual": true }),
        &["use_parallel_residual"],
    );
    unsupported(
        json!({ "quantization_config": { "quant_method": "gptq", "bits": 4 } }),
        &["quantization_config."],
    );
    unsupported(
        json!({ "layer_types": ["full_attention", "chunked_attention"] }),
        &["layer_types"],
    );
    unsupported(
        json!({ "rope_parameters": { "rope_theta": 1.0, "rope_type": "default", "mrope_section": [1] } }),
        &["rope_parameters.mrope_section"],
    );
    unsupported(json!({ "num_experts": 4 }), &["num_experts", "4"]);
}

#[test]
fn what_changes_nothing_is_no_obstacle() {
    let neutral = json!({
        "logit_scale": 1, "attn_logit_softcapping": null, "layer_types": ["full_attention"],
        "use_sliding_window": false, "some_tools_own_note": { "any": ["thing", 1] },
        "initializer_range": 0.3, "attention_dropout": 0.5, "torch_dtype": "float32",
    });
    let mut config = config();
    config.extend(neutral.as_object().unwrap().clone());
    check_config(&serde_json::to_vec(&config).unwrap()).unwrap();
}

#[test]
fn contradictions_and_wrong_types_are_named() {
    invalid(json!({ "hidden_size": "48" }), "hidden_size");
    invalid(json!({ "num_hidden_layers": null }), "num_hidden_layers");
    invalid(json!({ "num_hidden_layers": 0 }), "num_hidden_layers");
    invalid(json!({ "num_key_value_heads": 3 }), "num_key_value_heads");
    invalid(json!({ "rms_norm_eps": -1.0 }), "rms_norm_eps");
    invalid(json!({ "model_type": null }), "model_type");
    invalid(json!({ "rope_theta": 5.0 }), "rope_parameters.rope_theta");
    for text in ["", "[]", "nonsense", &"[".repeat(100_000)] {
        let error = check_config(text.as_bytes()).unwrap_err();
        let kind = ErrorKind::InvalidWeights {
            name: "config.json".into(),
        };
        assert_eq!(error.kind(), &kind, "{error}");
    }
    let nested = r#"{"a":"#.repeat(40) + "1" + &"}".repeat(40);
    assert!(check_config(nested.as_bytes()).is_err());
}

/// The error of a whole load of `files`.
fn load_error(files: &Files) -> Error {
    let loaded = files.engine(Box::new(Reference::new()), LoadOptions::default(), 10_000);
    loaded.expect_err("a checkpoint was believed")
}

/// The checkpoint with its tensors changed.
fn with_tensors(name: &str, change: impl FnOnce(&mut Safetensors)) -> Files {
    let mut files = checkpoint::files(name, "config.json");
    let mut weights = Safetensors::read(&files.weights[0]);
    change(&mut weights);
    files.weights[0] = weights.build();
    files
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    let named = |name: &str, files: Files| {
        let error = load_error(&files);
        assert!(error.to_string().contains(name), "{error}\nlacks {name}");
        error
    };
    let norm = "model.norm.weight";
    named(
        norm,
        with_tensors("llama", |file| file.tensors.retain(|t| t.name != norm)),
    );
    let error = named(
        "I8; supported in checkpoints are F32, F16, BF16",
        with_tensors("llama", |file| {
            let tensor = file.tensors.iter_mut().find(|t| t.name == norm).unwrap();
            tensor.dtype = "I8".into();
        }),
    );
    assert_eq!(error.kind(), &ErrorKind::Unsupported);
    let error = named(
        "model.extra.weight: the file holds this tensor",
        with_tensors("llama", |file| {
            *file = std::mem::take(file).tensor("model.extra.weight", "F32", &[1], vec![0; 4]);
        }),
    );
    assert_eq!(error.kind(), &ErrorKind::Unsupported);
    named(
        "48 × 107",
        with_tensors("llama", |file| {
            let down =
                |t: &&mut crate::support::safetensors::Tensor| t.name.ends_with("down_proj.weight");
            file.tensors.iter_mut().find(down).unwrap().shape = vec![107, 48];
        }),
    );
}

#[test]
fn flags_and_tensors_must_tell_one_story() {
    let changed = |key: &str, value: Value| {
        let mut files = checkpoint::files("llama", "config.json");
        let mut config = config();
        config.insert(key.into(), value);
        files.config = serde_json::to_vec(&config).unwrap();
        files
    };
    let error = load_error(&changed("attention_bias", json!(true)));
    let kind = |name: &str| ErrorKind::InvalidWeights { name: name.into() };
    assert_eq!(error.kind(), &kind("attention_bias"), "{error}");
    let error = load_error(&changed("mlp_bias", json!(true)));
    assert_eq!(error.kind(), &kind("mlp_bias"), "{error}");
    let headless = with_tensors("llama", |file| {
        file.tensors
            .retain(|tensor| tensor.name != "lm_head.weight");
    });
    let error = load_error(&headless);
    assert_eq!(error.kind(), &kind("tie_word_embeddings"), "{error}");
}

#[test]
fn what_no_model_needs_is_passed_over() {
    let files = with_tensors("llama-tied", |file| {
        let frequencies = "model.layers.0.self_attn.rotary_emb.inv_freq";
        *file = std::mem::take(file)
            .tensor(frequencies, "F32", &[2], vec![0; 8])
            .tensor("lm_head.weight", "F32", &[2, 2], vec![7; 16]);
    });
    let engine = files.engine(Box::new(Reference::new()), LoadOptions::default(), 10_000);
    engine.unwrap();
}

#[test]
fn a_base_models_names_lack_their_beginning() {
    let files = with_tensors("llama-tied", |file| {
        for tensor in &mut file.tensors {
            tensor.name = tensor.name.strip_prefix("model.").unwrap().to_owned();
        }
    });
    let engine = files.engine(Box::new(Reference::new()), LoadOptions::default(), 10_000);
    engine.unwrap();
}

#[test]
fn damaged_companions_are_named() {
    type Change = fn(&mut Files);
    let cases: [(&str, Change); 3] = [
        ("tokenizer.json", |files| files.tokenizer = b"{".to_vec()),
        ("tokenizer_config.json", |files| {
            files.tokenizer_config = b"[]".to_vec()
        }),
        ("generation_config.json", |files| {
            files.generation_config = b"7".to_vec()
        }),
    ];
    for (name, change) in cases {
        let mut files = checkpoint::files("llama", "config.json");
        change(&mut files);
        let error = load_error(&files);
        assert!(error.to_string().contains(name), "{error}");
        let options = LoadOptions::default();
        let early = Loader::checkpoint(Box::new(Reference::new()), options, &files.small());
        assert_eq!(early.err(), Some(error), "before any weight");
    }
}

#[test]
fn ids_and_settings_are_checked_before_any_weight() {
    let refused = |config: Value, generation: Value, what: &str| {
        let mut files = checkpoint::files("llama", "config.json");
        let mut whole = self::config();
        whole.extend(config.as_object().unwrap().clone());
        files.config = serde_json::to_vec(&whole).unwrap();
        files.generation_config = generation.to_string().into_bytes();
        let options = LoadOptions::default();
        let early = Loader::checkpoint(Box::new(Reference::new()), options, &files.small());
        let error = early.err().unwrap_or_else(|| panic!("{what} was believed"));
        assert!(error.to_string().contains(what), "{error}");
    };
    let none = || json!({});
    refused(json!({ "eos_token_id": "end" }), none(), "eos_token_id");
    refused(json!({ "eos_token_id": [2, -1] }), none(), "eos_token_id");
    refused(json!({ "bos_token_id": -7 }), none(), "bos_token_id");
    refused(json!({ "pad_token_id": 0.5 }), none(), "pad_token_id");
    let penalty = json!({ "repetition_penalty": "high" });
    refused(none(), penalty, "repetition_penalty");
    refused(none(), json!({ "max_new_tokens": -3 }), "max_new_tokens");
}

#[test]
fn a_padding_token_of_minus_one_is_none() {
    let mut files = checkpoint::files("llama", "config.json");
    let given = |files: &Files| {
        let options = LoadOptions::default();
        let engine = files.engine(Box::new(Reference::new()), options, 10_000);
        engine.unwrap().model().pad_token_id
    };
    files.config = {
        let mut config = config();
        config.insert("pad_token_id".into(), Value::Null);
        serde_json::to_vec(&config).unwrap()
    };
    let absent = given(&files);
    files.config = {
        let mut config = config();
        config.insert("pad_token_id".into(), json!(-1));
        serde_json::to_vec(&config).unwrap()
    };
    assert_eq!(given(&files), absent);
}
