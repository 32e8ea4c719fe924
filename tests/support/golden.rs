//! Golden checkpoints of Hugging Face, as tensors under the names that GGUF files use.

use std::{collections::BTreeMap, fs, path::PathBuf};

use super::gguf::Gguf;

use decant::{
    tensor::{DType, WeightSpec},
    weights::{Index, Metadata, TensorInfo, Value},
};

/// A checkpoint of the Llama family with the metadata of a GGUF file.
#[derive(Clone)]
pub struct Checkpoint {
    pub metadata: BTreeMap<String, Value>,
    /// Shape and bytes; query and key rows permuted as in GGUF files of this family.
    pub tensors: Vec<(WeightSpec, Vec<u8>)>,
}

/// One prompt and what the model says to it, run alone.
pub struct Forward {
    pub input_ids: Vec<u32>,
    /// Tokens × vocabulary.
    pub logits: Vec<f32>,
    /// Tokens × width: before the first layer, and after each.
    pub hidden: Vec<Vec<f32>>,
    /// Tokens × width: after the last norm.
    pub normed: Vec<f32>,
}

impl Checkpoint {
    /// The header that a file of this checkpoint would have.
    pub fn index(&self) -> Index {
        let mut offset = 0;
        let tensors = self.tensors.iter().map(|(spec, bytes)| {
            let info = TensorInfo {
                spec: spec.clone(),
                offset,
            };
            offset += bytes.len() as u64;
            info
        });
        Index {
            tensors: tensors.collect(),
            metadata: Metadata(self.metadata.clone()),
            ..Index::default()
        }
    }

    /// The bytes of the tensors, in the order of the index.
    pub fn bytes(&self) -> Vec<Vec<u8>> {
        self.tensors
            .iter()
            .map(|(_, bytes)| bytes.clone())
            .collect()
    }

    /// Exchanges two rows of a tensor.
    pub fn swap_rows(&mut self, name: &str, a: usize, b: usize) {
        let (spec, bytes) = self
            .tensors
            .iter_mut()
            .find(|(spec, _)| spec.name == name)
            .unwrap();
        let row = spec.bytes() / spec.rows;
        for i in 0..row {
            bytes.swap(a * row + i, b * row + i);
        }
    }
}

/// Where the golden data lies.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/goldens")
}

/// The checkpoint in `models/<name>`.
pub fn checkpoint(name: &str) -> Checkpoint {
    let folder = folder().join("models").join(name);
    let config: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
    let number = |key: &str| config[key].as_u64().unwrap();
    let (heads, kv_heads, head_dim) = (
        number("num_attention_heads"),
        number("num_key_value_heads"),
        number("head_dim"),
    );
    let unsigned = [
        ("block_count", number("num_hidden_layers")),
        ("context_length", number("max_position_embeddings")),
        ("embedding_length", number("hidden_size")),
        ("feed_forward_length", number("intermediate_size")),
        ("attention.head_count", heads),
        ("attention.head_count_kv", kv_heads),
        ("attention.key_length", head_dim),
        ("attention.value_length", head_dim),
        ("vocab_size", number("vocab_size")),
    ];
    let mut metadata: BTreeMap<_, _> = unsigned
        .iter()
        .map(|&(key, n)| (format!("llama.{key}"), Value::Unsigned(n)))
        .collect();
    metadata.insert("general.architecture".into(), Value::String("llama".into()));
    let epsilon = config["rms_norm_eps"].as_f64().unwrap();
    metadata.insert(
        "llama.attention.layer_norm_rms_epsilon".into(),
        Value::Float(epsilon),
    );
    let theta = config["rope_parameters"]["rope_theta"].as_f64().unwrap();
    metadata.insert("llama.rope.freq_base".into(), Value::Float(theta));

    let tensors = safetensors(&folder.join("model.safetensors"))
        .into_iter()
        .map(|mut tensor| {
            let name = gguf_name(&tensor.name);
            match name.rsplit('.').nth(1) {
                Some("attn_q") => tensor.permute(heads as usize),
                Some("attn_k") => tensor.permute(kv_heads as usize),
                _ => {}
            }
            let (columns, rows) = (
                *tensor.shape.last().unwrap(),
                tensor.shape[..tensor.shape.len() - 1].iter().product(),
            );
            (
                WeightSpec {
                    name,
                    dtype: tensor.dtype,
                    rows,
                    columns,
                },
                tensor.bytes,
            )
        });
    Checkpoint {
        metadata,
        tensors: tensors.collect(),
    }
}

/// The GGUF file of a checkpoint whose tokenizer is a byte-level BPE of Llama 3's kind.
pub fn gguf(name: &str) -> Vec<u8> {
    gguf_file(name).build()
}

/// The same in `count` files, as `gguf-split` writes them.
pub fn split_gguf(name: &str, count: usize) -> Vec<Vec<u8>> {
    let mut first = gguf_file(name);
    let tensors = std::mem::take(&mut first.tensors);
    let total = tensors.len();
    let mut files = vec![Gguf::new(); count];
    files[0] = first;
    for (at, tensor) in tensors.into_iter().enumerate() {
        files[at * count / total].tensors.push(tensor);
    }
    let files = files.into_iter().enumerate().map(|(at, file)| {
        let file = file
            .meta("split.no", at as u16)
            .meta("split.count", count as u16)
            .meta("split.tensors.count", total as i32);
        file.build()
    });
    files.collect()
}

fn gguf_file(name: &str) -> Gguf {
    let checkpoint = checkpoint(name);
    let json = |file: &str| -> serde_json::Value {
        serde_json::from_slice(&fs::read(folder().join("models").join(name).join(file)).unwrap())
            .unwrap()
    };
    let (tokenizer, config) = (json("tokenizer.json"), json("tokenizer_config.json"));
    let mut tokens: Vec<(u64, String)> = Vec::new();
    for (token, id) in tokenizer["model"]["vocab"].as_object().unwrap() {
        tokens.push((id.as_u64().unwrap(), token.clone()));
    }
    let added = tokenizer["added_tokens"].as_array().unwrap();
    for token in added {
        tokens.push((
            token["id"].as_u64().unwrap(),
            token["content"].as_str().unwrap().into(),
        ));
    }
    tokens.sort();
    tokens.dedup();
    assert!(
        tokens
            .iter()
            .enumerate()
            .all(|(at, (id, _))| at as u64 == *id),
        "ids have no gaps"
    );
    let special = |id: u64| added.iter().any(|t| t["id"] == id && t["special"] == true);
    let user = |id: u64| added.iter().any(|t| t["id"] == id && t["special"] == false);
    let kind = |id: u64| {
        if special(id) {
            3
        } else if user(id) {
            4
        } else {
            1
        }
    };
    let kinds: Vec<i32> = tokens.iter().map(|(id, _)| kind(*id)).collect();
    let merges = tokenizer["model"]["merges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|merge| {
            let part = |i: usize| merge[i].as_str().unwrap();
            format!("{} {}", part(0), part(1))
        });
    let merges: Vec<String> = merges.collect();
    let tokens: Vec<String> = tokens.into_iter().map(|(_, token)| token).collect();
    let model = json("generation_config.json");
    let ends: Vec<u32> = match &model["eos_token_id"] {
        serde_json::Value::Array(ids) => ids.iter().map(|id| id.as_u64().unwrap() as u32).collect(),
        id => vec![id.as_u64().unwrap() as u32],
    };
    let mut file = Gguf::new();
    for (key, value) in checkpoint.metadata {
        file = match value {
            Value::Unsigned(n) => file.meta(&key, n as u32),
            Value::Float(x) => file.meta(&key, x as f32),
            Value::String(text) => file.meta(&key, &*text),
            other => panic!("{key}: {other:?}"),
        };
    }
    file = file
        .meta("tokenizer.ggml.model", "gpt2")
        .meta("tokenizer.ggml.pre", "llama-bpe")
        .meta("tokenizer.ggml.tokens", &tokens[..])
        .meta("tokenizer.ggml.token_type", &kinds[..])
        .meta("tokenizer.ggml.merges", &merges[..])
        .meta(
            "tokenizer.ggml.bos_token_id",
            model["bos_token_id"].as_u64().unwrap() as u32,
        )
        .meta("tokenizer.ggml.eos_token_id", ends[0])
        .meta(
            "tokenizer.ggml.padding_token_id",
            model["pad_token_id"].as_u64().unwrap() as u32,
        )
        .meta("tokenizer.ggml.add_bos_token", true)
        .meta(
            "tokenizer.chat_template",
            config["chat_template"].as_str().unwrap(),
        );
    if let Some(&end) = ends.get(1) {
        file = file.meta("tokenizer.ggml.eot_token_id", end);
    }
    for (spec, bytes) in checkpoint.tensors {
        let shape = match spec.rows {
            1 => vec![spec.columns as u64],
            rows => vec![spec.columns as u64, rows as u64],
        };
        file = file.blocks(&spec.name, &shape, spec.dtype, bytes);
    }
    file
}

/// The prompts of `models/<name>/forward.safetensors`.
pub fn forward(name: &str) -> Vec<Forward> {
    let tensors = safetensors(
        &folder()
            .join("models")
            .join(name)
            .join("forward.safetensors"),
    );
    let get = |name: String| tensors.iter().find(|tensor| tensor.name == name).unwrap();
    let has = |name: &str| tensors.iter().any(|tensor| tensor.name == name);
    let floats = |name: String| -> Vec<f32> {
        let words = words(&get(name).bytes);
        words.into_iter().map(f32::from_bits).collect()
    };
    let prompt = |i: usize| Forward {
        input_ids: words(&get(format!("{i}.input_ids")).bytes),
        logits: floats(format!("{i}.logits")),
        hidden: (0..)
            .map(|k| format!("{i}.hidden.{k}"))
            .take_while(|name| has(name))
            .map(floats)
            .collect(),
        normed: floats(format!("{i}.normed")),
    };
    vec![prompt(0), prompt(1)]
}

struct Tensor {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Tensor {
    /// From Hugging Face's order of a head's rows, halves, to GGUF's, neighbours.
    fn permute(&mut self, heads: usize) {
        let row = self.bytes.len() / self.shape[0];
        let head = self.shape[0] / heads;
        let order = (0..self.shape[0]).map(|at| {
            let (start, within) = (at / head * head, at % head);
            start + within / 2 + within % 2 * (head / 2)
        });
        self.bytes = order
            .flat_map(|from| self.bytes[from * row..][..row].to_vec())
            .collect();
    }
}

fn safetensors(path: &PathBuf) -> Vec<Tensor> {
    let file = fs::read(path).unwrap();
    let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let data = &file[8 + header..];
    let header: serde_json::Map<_, _> = serde_json::from_slice(&file[8..8 + header]).unwrap();
    let tensors = header
        .into_iter()
        .filter(|(name, _)| name != "__metadata__")
        .map(|(name, entry)| {
            let numbers = |key: &str| -> Vec<usize> {
                entry[key]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|n| n.as_u64().unwrap() as usize)
                    .collect()
            };
            let dtype = match entry["dtype"].as_str().unwrap() {
                // Ids are only ever read as words.
                "F32" | "I32" => DType::F32,
                "F16" => DType::F16,
                "BF16" => DType::BF16,
                other => panic!("{name}: {other}"),
            };
            let range = numbers("data_offsets");
            Tensor {
                dtype,
                shape: numbers("shape"),
                bytes: data[range[0]..range[1]].to_vec(),
                name,
            }
        });
    tensors.collect()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

fn gguf_name(name: &str) -> String {
    let parts = [
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("model.layers", "blk"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
    ];
    parts
        .iter()
        .fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}
