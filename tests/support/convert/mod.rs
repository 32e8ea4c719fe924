//! Golden checkpoints as GGUF files would hold them: keys, names and layouts of llama.cpp's
//! `convert_hf_to_gguf.py`, written again here so that the crate's own tables are not their own judge.

mod names;

use std::collections::BTreeMap;

use decant::{
    tensor::{DType, WeightSpec, dequantise},
    weights::Value,
};
use serde_json::Value as Json;

use super::{
    checkpoint::Files,
    golden::Checkpoint,
    quantise::quantise,
    safetensors::{Safetensors, Tensor},
};

/// The checkpoint in `files` under GGUF's conventions. `quantised`: what matrices become whose rows are
/// whole blocks.
pub fn gguf(files: &Files, quantised: Option<DType>) -> Checkpoint {
    let config: Json = serde_json::from_slice(&files.config).unwrap();
    let kind = config["model_type"].as_str().unwrap().to_owned();
    let converter = Converter {
        architecture: names::architecture(&kind),
        config,
        kind,
    };
    let mut tensors = BTreeMap::new();
    for tensor in Safetensors::read(&files.weights[0]).tensors {
        converter.tensor(&tensor, &mut tensors);
    }
    converter.extra_tensors(&mut tensors);
    let stacked = stack(&mut tensors);
    let tensors = tensors
        .into_iter()
        .chain(stacked)
        .map(|(name, (rows, values))| {
            let columns = values.len() / rows;
            let exact = rows == 1
                || ["ffn_gate_inp", "_norm."]
                    .iter()
                    .any(|part| name.contains(part));
            let fits = |dtype: &DType| !exact && columns.is_multiple_of(dtype.block_len());
            let dtype = quantised.filter(fits).unwrap_or(DType::F32);
            let bytes = quantise(dtype, &values);
            let spec = WeightSpec {
                name,
                dtype,
                rows,
                columns,
            };
            (spec, bytes)
        });
    Checkpoint {
        metadata: converter.metadata(),
        tensors: tensors.collect(),
    }
}

/// The same with every tensor as plain numbers.
pub fn plain(checkpoint: &Checkpoint) -> Checkpoint {
    let tensors = checkpoint.tensors.iter().map(|(spec, bytes)| {
        let mut values = vec![0.0; spec.rows * spec.columns];
        dequantise(spec.dtype, bytes, &mut values);
        let spec = WeightSpec {
            dtype: DType::F32,
            ..spec.clone()
        };
        (spec, quantise(DType::F32, &values))
    });
    Checkpoint {
        metadata: checkpoint.metadata.clone(),
        tensors: tensors.collect(),
    }
}

/// Rows and values.
type Matrix = (usize, Vec<f32>);

struct Converter {
    architecture: &'static str,
    kind: String,
    config: Json,
}

impl Converter {
    fn number(&self, keys: &[&str]) -> Option<f64> {
        keys.iter().find_map(|key| self.config[key].as_f64())
    }

    fn count(&self, keys: &[&str]) -> Option<usize> {
        self.number(keys).map(|number| number as usize)
    }

    fn rope(&self, key: &str) -> &Json {
        &self.config["rope_parameters"][key]
    }

    fn heads(&self) -> usize {
        self.count(&["num_attention_heads", "n_head"]).unwrap()
    }

    fn kv_heads(&self) -> usize {
        self.count(&["num_key_value_heads"]).unwrap_or(self.heads())
    }

    fn hidden(&self) -> usize {
        self.count(&["hidden_size", "n_embd"]).unwrap()
    }

    fn head_dim(&self) -> usize {
        self.count(&["head_dim"])
            .unwrap_or(self.hidden() / self.heads())
    }

    fn metadata(&self) -> BTreeMap<String, Value> {
        let mut metadata = BTreeMap::new();
        metadata.insert(
            "general.architecture".into(),
            Value::String(self.architecture.into()),
        );
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                metadata.insert(format!("{}.{key}", self.architecture), value);
            }
        };
        let count = |keys: &[&str]| self.count(keys).map(|n| Value::Unsigned(n as u64));
        let number = |keys: &[&str]| self.number(keys).map(Value::Float);
        set("block_count", count(&["num_hidden_layers", "n_layer"]));
        set(
            "context_length",
            count(&["max_position_embeddings", "n_positions"]),
        );
        set("embedding_length", count(&["hidden_size", "n_embd"]));
        let width = count(&["intermediate_size", "n_inner"]);
        let width = width.unwrap_or(Value::Unsigned(4 * self.hidden() as u64));
        set("feed_forward_length", Some(width));
        set(
            "attention.head_count",
            count(&["num_attention_heads", "n_head"]),
        );
        set("attention.head_count_kv", count(&["num_key_value_heads"]));
        set("attention.key_length", count(&["head_dim"]));
        set("attention.value_length", count(&["head_dim"]));
        set("vocab_size", count(&["vocab_size"]));
        set(
            "attention.layer_norm_rms_epsilon",
            number(&["rms_norm_eps", "norm_eps"]),
        );
        set(
            "attention.layer_norm_epsilon",
            number(&["layer_norm_eps", "layer_norm_epsilon"]),
        );
        if self.kind == "lfm2" {
            let types = self.config["layer_types"].as_array().unwrap();
            let heads = self.kv_heads() as i64;
            let heads = types
                .iter()
                .map(|kind| if kind == "conv" { 0 } else { heads });
            let heads = Value::Integers(heads.collect());
            set("attention.head_count_kv", Some(heads));
            set("shortconv.l_cache", count(&["conv_L_cache"]));
        }
        let window = count(&["sliding_window"]);
        // For Phi-3, 0 is none.
        let none = (self.kind == "phi3").then_some(Value::Unsigned(0));
        set("attention.sliding_window", window.or(none));
        set(
            "attn_logit_softcapping",
            number(&["attn_logit_softcapping"]),
        );
        set(
            "final_logit_softcapping",
            number(&["final_logit_softcapping"]),
        );
        let scalar = self.number(&["query_pre_attn_scalar"]);
        let scale = scalar.map(|scalar| Value::Float(scalar.powf(-0.5)));
        set(
            "attention.scale",
            scale.or(number(&["attention_multiplier"])),
        );
        set("embedding_scale", number(&["embedding_multiplier"]));
        set("residual_scale", number(&["residual_multiplier"]));
        set("logit_scale", number(&["logit_scale", "logits_scaling"]));
        set("expert_count", count(&["num_experts", "num_local_experts"]));
        set("expert_used_count", count(&["num_experts_per_tok"]));
        set(
            "expert_feed_forward_length",
            count(&["moe_intermediate_size"]),
        );
        if ["gpt_neox", "stablelm"].contains(&&*self.kind) {
            // What it says of a StableLM that does not say it is wrong.
            let parallel = self.config["use_parallel_residual"].as_bool();
            let parallel = Value::Bool(parallel.unwrap_or(true));
            set("use_parallel_residual", Some(parallel));
        }
        if self.kind == "cohere" {
            set("rope.scaling.type", Some(Value::String("none".into())));
        }
        if self.kind == "gemma3_text" {
            let global = &self.config["rope_parameters"]["full_attention"];
            let local = &self.config["rope_parameters"]["sliding_attention"];
            set(
                "rope.freq_base",
                global["rope_theta"].as_f64().map(Value::Float),
            );
            set(
                "rope.freq_base_swa",
                local["rope_theta"].as_f64().map(Value::Float),
            );
            set("rope.scaling.type", Some(Value::String("linear".into())));
            set(
                "rope.scaling.factor",
                global["factor"].as_f64().map(Value::Float),
            );
            let types = self.config["layer_types"].as_array().unwrap();
            let pattern = types.iter().position(|kind| kind == "full_attention");
            set(
                "attention.sliding_window_pattern",
                pattern.map(|at| Value::Unsigned(at as u64 + 1)),
            );
            return metadata;
        }
        set(
            "rope.freq_base",
            self.rope("rope_theta").as_f64().map(Value::Float),
        );
        let partial = self.rope("partial_rotary_factor").as_f64();
        let dims = (self.head_dim() as f64 * partial.unwrap_or(1.0)) as u64;
        let rotates = self.kind != "gpt2";
        set(
            "rope.dimension_count",
            rotates.then_some(Value::Unsigned(dims)),
        );
        let factor = self.rope("factor").as_f64().map(Value::Float);
        let original = self.rope("original_max_position_embeddings").as_u64();
        match self.rope("rope_type").as_str() {
            Some(kind @ ("linear" | "yarn")) => {
                set("rope.scaling.type", Some(Value::String(kind.into())));
                set("rope.scaling.factor", factor);
                set(
                    "rope.scaling.original_context_length",
                    original.map(Value::Unsigned),
                );
            }
            // The one family that has it does not name it.
            Some("longrope") => {
                let original = original.unwrap();
                let growth = self.number(&["max_position_embeddings"]).unwrap() / original as f64;
                let scale = (1.0 + growth.ln() / (original as f64).ln()).sqrt();
                set("rope.scaling.attn_factor", Some(Value::Float(scale)));
                set(
                    "rope.scaling.original_context_length",
                    Some(Value::Unsigned(original)),
                );
            }
            // The scaling of Llama 3 is a tensor.
            _ => {}
        }
        metadata
    }

    fn tensor(&self, tensor: &Tensor, out: &mut BTreeMap<String, Matrix>) {
        let whole = tensor
            .name
            .strip_prefix("transformer.")
            .unwrap_or(&tensor.name);
        if whole.ends_with(".attn.bias") {
            return;
        }
        let dtype = match &*tensor.dtype {
            "F32" => DType::F32,
            "F16" => DType::F16,
            "BF16" => DType::BF16,
            other => panic!("{other}"),
        };
        let count: u64 = tensor.shape.iter().product();
        let mut values = vec![0.0; count as usize];
        dequantise(dtype, &tensor.data, &mut values);
        let columns = *tensor.shape.last().unwrap() as usize;
        let rows = values.len() / columns;
        let name = names::rename(&self.kind, whole);
        let kind = name.rsplit('.').nth(1).unwrap().to_owned();
        let matrix = match &*kind {
            "attn_q" if self.permutes() => permuted((rows, values), self.heads()),
            "attn_k" if self.permutes() => permuted((rows, values), self.kv_heads()),
            "attn_qkv" if self.kind == "gpt_neox" => self.deinterleaved((rows, values)),
            "attn_qkv" | "attn_output" | "ffn_up" | "ffn_down"
                if self.kind == "gpt2" && rows > 1 =>
            {
                transposed((rows, values))
            }
            _ if self.kind.starts_with("gemma") && name.ends_with("norm.weight") => {
                (rows, values.iter().map(|v| v + 1.0).collect())
            }
            _ => (rows, values),
        };
        out.insert(name, matrix);
    }

    /// Whether query and key rows are put in the order of neighbouring pairs.
    fn permutes(&self) -> bool {
        ["llama", "mistral", "smollm3", "granite"].contains(&&*self.kind)
    }

    /// From query, key and value of each head in turn to all queries, all keys, all values.
    fn deinterleaved(&self, (rows, values): Matrix) -> Matrix {
        let outputs = 3 * self.hidden();
        let width = values.len() / outputs;
        let size = self.head_dim();
        let row = |at: usize| {
            let (which, head, i) = (at / self.hidden(), at % self.hidden() / size, at % size);
            (head * 3 + which) * size + i
        };
        let order = (0..outputs).flat_map(|at| values[row(at) * width..][..width].to_vec());
        (rows, order.collect())
    }

    fn extra_tensors(&self, out: &mut BTreeMap<String, Matrix>) {
        let factors = |key: &str| -> Option<Vec<f32>> {
            let list = self.rope(key).as_array()?;
            Some(list.iter().map(|x| x.as_f64().unwrap() as f32).collect())
        };
        for (key, name) in [("long_factor", "long"), ("short_factor", "short")] {
            if let Some(values) = factors(key) {
                out.insert(format!("rope_factors_{name}.weight"), (1, values));
            }
        }
        if self.rope("rope_type") == "llama3" {
            let number = |key: &str| self.rope(key).as_f64().unwrap();
            let original = number("original_max_position_embeddings");
            let (low, high) = (number("low_freq_factor"), number("high_freq_factor"));
            let dims = self.head_dim();
            let factor = |i: usize| {
                let wave =
                    std::f64::consts::TAU * number("rope_theta").powf(2.0 * i as f64 / dims as f64);
                if wave < original / high {
                    1.0
                } else if wave > original / low {
                    number("factor")
                } else {
                    let smooth = (original / wave - low) / (high - low);
                    1.0 / ((1.0 - smooth) / number("factor") + smooth)
                }
            };
            let values = (0..dims / 2).map(|i| factor(i) as f32).collect();
            out.insert("rope_freqs.weight".into(), (1, values));
        }
    }
}

/// One tensor for the matrices of all experts, and for the norms of all heads.
fn stack(tensors: &mut BTreeMap<String, Matrix>) -> BTreeMap<String, Matrix> {
    let mut stacked = BTreeMap::<String, Matrix>::new();
    let names: Vec<String> = tensors
        .keys()
        .filter(|name| name.contains('#'))
        .cloned()
        .collect();
    // Numbers below ten are in their order.
    for name in names {
        let (rows, values) = tensors.remove(&name).unwrap();
        let (whole, _) = name.split_once('#').unwrap();
        let whole = stacked.entry(whole.to_owned()).or_default();
        whole.0 += rows;
        whole.1.extend(values);
    }
    stacked
}

/// From the order of halves within each head to that of neighbours.
fn permuted((rows, values): Matrix, heads: usize) -> Matrix {
    let outputs = if rows == 1 { values.len() } else { rows };
    let (width, head) = (values.len() / outputs, outputs / heads);
    let from = |at: usize| at / head * head + at % head / 2 + at % 2 * (head / 2);
    let order = (0..outputs).flat_map(|at| values[from(at) * width..][..width].to_vec());
    (rows, order.collect())
}

fn transposed((rows, values): Matrix) -> Matrix {
    let columns = values.len() / rows;
    let turned = (0..columns).flat_map(|column| (0..rows).map(move |row| row * columns + column));
    (columns, turned.map(|at| values[at]).collect())
}
