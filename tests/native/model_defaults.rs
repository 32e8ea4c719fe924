//! Constants in `config.json`: what is absent, null, or leads nowhere.

use decant::{
    error::ErrorKind,
    model::{ModelConfig, Scaling, describe},
    ops::Activation,
    weights::{Format, Metadata},
};
use serde_json::{Value as Json, json};

use crate::support::checkpoint::{self, Files};

/// The golden `config.json` of `name` after some changes: null takes a key away, and `"null"` is null.
fn configured(name: &str, changes: Json) -> decant::error::Result<ModelConfig> {
    let Files { config, .. } = checkpoint::files(name, "config.json");
    let mut config: Json = serde_json::from_slice(&config).unwrap();
    let config = config.as_object_mut().unwrap();
    for (key, value) in changes.as_object().unwrap() {
        match value {
            Json::Null => drop(config.remove(key)),
            value if value == "null" => drop(config.insert(key.clone(), Json::Null)),
            value => drop(config.insert(key.clone(), value.clone())),
        }
    }
    let text = serde_json::to_vec(config).unwrap();
    let metadata = Metadata::from_json("config.json", &text)?;
    describe(&metadata, Format::Checkpoint).map(|(_, config)| config)
}

/// Source of the values: the configuration classes of transformers 5.24.
#[test]
fn absent_keys_mean_what_they_mean_to_hugging_face() {
    let config = |name, changes| configured(name, changes).unwrap();
    let without_rope = || json!({ "rope_parameters": null });
    assert_eq!(
        config("gpt2", json!({ "activation_function": null })).activation,
        Activation::GeluTanh
    );
    assert_eq!(
        config("gpt_neox", json!({ "hidden_act": null })).activation,
        Activation::Gelu
    );
    let rope = |name| {
        let mut changes = without_rope();
        if name == "gpt_neox" {
            changes["num_attention_heads"] = json!(5);
        }
        config(name, changes).ropes[0].clone()
    };
    assert_eq!(
        (rope("stablelm").dims, rope("stablelm").theta),
        (4, 10_000.0)
    );
    assert_eq!(rope("gpt_neox").dims, 4);
    assert_eq!(rope("cohere").theta, 500_000.0);
    assert_eq!(rope("smollm3").theta, 2_000_000.0);
    let gemma3 = config("gemma3", without_rope());
    let thetas: Vec<_> = gemma3.ropes.iter().map(|rope| rope.theta).collect();
    assert_eq!(thetas, [1_000_000.0, 10_000.0]);

    let caps = json!({
        "attn_logit_softcapping": null, "final_logit_softcapping": null, "query_pre_attn_scalar": null,
    });
    let gemma2 = config("gemma2", caps.clone());
    assert_eq!(
        (gemma2.attention_cap, gemma2.logit_cap),
        (Some(50.0), Some(30.0))
    );
    assert_eq!(gemma2.attention_scale, 1.0 / 16.0);
    let gemma3 = config("gemma3", caps);
    assert_eq!((gemma3.attention_cap, gemma3.logit_cap), (None, None));
    assert_eq!(gemma3.attention_scale, 1.0 / 16.0);

    for name in ["mistral", "gemma2", "gemma3"] {
        let window = config(name, json!({ "sliding_window": null })).layers[0].window;
        assert_eq!(window, Some(4096), "{name}");
    }
    let all = json!({ "sliding_window": null, "use_sliding_window": true, "layer_types": null });
    for name in ["qwen2", "qwen3"] {
        let layers = config(name, {
            let mut all = all.clone();
            all["max_window_layers"] = json!(1);
            all
        })
        .layers;
        assert_eq!(
            [layers[0].window, layers[1].window],
            [None, Some(4096)],
            "{name}"
        );
        let mut late = all.clone();
        late["max_window_layers"] = Json::Null;
        assert_eq!(config(name, late).layers[1].window, None, "{name}");
    }
    // Its windows know no first layer.
    let mut every = all.clone();
    every["max_window_layers"] = json!(28);
    assert_eq!(config("qwen3_moe", every).layers[0].window, Some(4096));
    assert_eq!(
        config("cohere", json!({ "logit_scale": null })).logit_scale,
        0.0625
    );
    assert_eq!(config("qwen3", json!({ "head_dim": null })).head_dim, 128);
    assert_eq!(config("gemma2", json!({ "head_dim": null })).head_dim, 256);
    let llama3 = json!({
        "rope_type": "llama3", "factor": 4.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
    });
    let rope = config("llama-llama3", json!({ "rope_parameters": llama3 })).ropes[0].clone();
    assert!(
        matches!(rope.scaling, Scaling::Llama3 { original: 256, .. }),
        "{rope:?}"
    );
}

#[test]
fn an_explicit_null_turns_off_what_absence_would_turn_on() {
    let config = |name, changes| configured(name, changes).unwrap();
    for name in ["mistral", "gemma2"] {
        let mut changes = json!({ "sliding_window": "null" });
        if name == "gemma2" {
            changes["layer_types"] = Json::Null;
        }
        let layers = config(name, changes).layers;
        assert!(layers.iter().all(|layer| layer.window.is_none()), "{name}");
    }
    let caps = json!({ "attn_logit_softcapping": "null", "final_logit_softcapping": "null" });
    let gemma2 = config("gemma2", caps);
    assert_eq!((gemma2.attention_cap, gemma2.logit_cap), (None, None));
    let kv_heads = |value: Json| {
        let config = config("smollm3", json!({ "num_key_value_heads": value }));
        config.kv_heads
    };
    assert_eq!((kv_heads(json!("null")), kv_heads(Json::Null)), (4, 4));
    assert_eq!(
        config("mistral", json!({ "num_key_value_heads": "null" })).kv_heads,
        6
    );
}

#[test]
fn gemma_1_takes_hidden_act_by_its_legacy_rule() {
    let gemma = |hidden_act: Json, hidden_activation: Json| {
        configured(
            "gemma2",
            json!({
                "model_type": "gemma", "hidden_act": hidden_act, "hidden_activation": hidden_activation,
                "attn_logit_softcapping": null, "final_logit_softcapping": null, "sliding_window": null,
                "query_pre_attn_scalar": null, "layer_types": null,
            }),
        )
    };
    // "gelu" is what the first releases wrote for the approximation.
    for name in [json!("gelu"), json!("gelu_pytorch_tanh"), Json::Null] {
        let config = gemma(name, json!("null")).unwrap();
        assert_eq!(config.activation, Activation::GeluTanh);
    }
    assert_eq!(
        gemma(json!("silu"), Json::Null).unwrap().activation,
        Activation::Silu
    );
    let error = gemma(Json::Null, json!("relu")).unwrap_err().to_string();
    assert!(error.contains("hidden_activation"), "{error}");
    // Later generations have only the other key, and it may name any.
    for (name, expected) in [
        (Json::Null, Activation::GeluTanh),
        (json!("gelu"), Activation::Gelu),
        (json!("silu"), Activation::Silu),
    ] {
        let config = configured("gemma2", json!({ "hidden_activation": name })).unwrap();
        assert_eq!(config.activation, expected);
    }
}

#[test]
fn smollm3_has_windows_only_where_heads_are_not_rotated() {
    let windows = |changes: Json| {
        let mut all =
            json!({ "use_sliding_window": true, "sliding_window": 8, "layer_types": null });
        for (key, value) in changes.as_object().unwrap() {
            all[key] = value.clone();
        }
        let layers = configured("smollm3", all).unwrap().layers;
        layers
            .iter()
            .map(|layer| layer.window.is_some())
            .collect::<Vec<_>>()
    };
    assert_eq!(windows(json!({})), [false, true, false, true]);
    assert_eq!(
        windows(json!({ "max_window_layers": 28 })),
        [false, true, false, true]
    );
    assert_eq!(
        windows(json!({ "no_rope_layers": null })),
        [false, false, false, true]
    );
    // A longer list is allowed; what is listed goes before the rule.
    assert_eq!(
        windows(json!({ "no_rope_layers": [0, 1, 1, 1, 0, 0] })),
        [true, false, false, false]
    );
    let listed = [
        "sliding_attention",
        "full_attention",
        "full_attention",
        "full_attention",
    ];
    assert_eq!(
        windows(json!({ "layer_types": listed })),
        [true, false, false, false]
    );
    assert_eq!(windows(json!({ "use_sliding_window": false })), [false; 4]);
    let error = configured("smollm3", json!({ "no_rope_layers": [1, 0, 1] })).unwrap_err();
    assert!(error.to_string().contains("no_rope_layers"), "{error}");
}

#[test]
fn steps_of_layers_are_not_zero() {
    for (name, changes, key) in [
        (
            "smollm3",
            json!({ "no_rope_layers": null, "no_rope_layer_interval": 0 }),
            "no_rope_layer_interval",
        ),
        (
            "qwen3_moe",
            json!({ "decoder_sparse_step": 0 }),
            "decoder_sparse_step",
        ),
        (
            "gemma3",
            json!({ "layer_types": null, "_sliding_window_pattern": 0 }),
            "sliding_window_pattern",
        ),
    ] {
        let error = configured(name, changes).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains('0'), "{error}");
    }
}

#[test]
fn phi3_reads_older_names_of_its_scaling() {
    let rope = |rope_type: &str, original: bool| {
        let mut rope = json!({
            "rope_type": rope_type, "long_factor": [2, 2, 2, 2, 2, 2], "short_factor": [1, 1, 1, 1, 1, 1],
            "partial_rotary_factor": 0.75, "rope_theta": 10_000.0,
        });
        if original {
            rope["original_max_position_embeddings"] = json!(16);
        }
        let original = if original { json!(16) } else { Json::Null };
        configured(
            "phi3",
            json!({ "rope_parameters": rope, "original_max_position_embeddings": original }),
        )
        .unwrap()
        .ropes[0]
            .scaling
            .clone()
    };
    let long = rope("longrope", true);
    assert!(
        matches!(long, Scaling::Long { original: 16, .. }),
        "{long:?}"
    );
    assert_eq!(rope("su", true), long);
    assert_eq!(rope("yarn", true), long);
    assert!(matches!(
        rope("longrope", false),
        Scaling::Long { original: 4096, .. }
    ));
    // The names are those of this family alone.
    let su = json!({ "rope_type": "su", "long_factor": [1], "short_factor": [1] });
    let error = configured("llama", json!({ "rope_parameters": su })).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unsupported, "{error}");
}

#[test]
fn constants_that_lead_to_infinities_are_refused() {
    let rope = |changes: Json| {
        let mut rope = json!({ "rope_theta": 10_000.0 });
        for (key, value) in changes.as_object().unwrap() {
            rope[key] = value.clone();
        }
        json!({ "rope_parameters": rope })
    };
    let llama3 = |low: f64, high: f64| {
        rope(json!({
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": low, "high_freq_factor": high,
            "original_max_position_embeddings": 64,
        }))
    };
    let yarn = |key: &str, value: f64| {
        let mut yarn = json!({
            "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64,
        });
        yarn[key] = json!(value);
        rope(yarn)
    };
    let phi3 = |key: &str, value: f64| {
        let mut long = json!({
            "rope_type": "longrope", "long_factor": [2, 2, 2, 2, 2, 2], "short_factor": [1, 1, 1, 1, 1, 1],
            "partial_rotary_factor": 0.75, "original_max_position_embeddings": 16,
        });
        long[key] = json!(value);
        let mut changes = rope(long.clone());
        changes["original_max_position_embeddings"] =
            long["original_max_position_embeddings"].clone();
        changes
    };
    for (name, changes, key) in [
        (
            "granite",
            json!({ "logits_scaling": 0.0 }),
            "logits_scaling",
        ),
        (
            "granite",
            json!({ "logits_scaling": 1e-39 }),
            "logits_scaling",
        ),
        (
            "gemma2",
            json!({ "query_pre_attn_scalar": 0.0 }),
            "query_pre_attn_scalar",
        ),
        ("llama", llama3(0.0, 4.0), "rope"),
        (
            "llama",
            rope(json!({ "rope_type": "linear", "factor": 1e-39 })),
            "factor",
        ),
        ("llama-yarn", yarn("beta_fast", -1.0), "rope"),
        ("llama-yarn", yarn("rope_theta", 1.0), "rope"),
        ("llama-yarn", yarn("attention_factor", 0.0), "rope"),
        (
            "llama-yarn",
            yarn("original_max_position_embeddings", 0.0),
            "rope",
        ),
        (
            "phi3",
            phi3("original_max_position_embeddings", 1.0),
            "rope",
        ),
        ("phi3", phi3("attention_factor", -1.0), "rope"),
        (
            "phi3",
            json!({ "rope_parameters": { "rope_theta": 1e38, "partial_rotary_factor": 0.75 } }),
            "",
        ),
    ] {
        let told = format!("{name}, {changes}");
        match configured(name, changes) {
            Ok(config) if key.is_empty() => assert!(config.ropes[0].theta.is_finite()),
            Ok(_) => panic!("{told} was believed"),
            Err(error) => assert!(error.to_string().contains(key), "{told}: {error}"),
        }
    }
}
