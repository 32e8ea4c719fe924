//! Golden checkpoints as Hugging Face writes them: `config.json`, safetensors, tokenizer files.

use std::fs;

use decant::{
    exec::{Allocation, Executor, TapeId},
    generation::Engine,
    load::{CheckpointFiles, LoadOptions, Loader},
    model::{Graph, GraphOptions},
    ops::{BufferId, CacheType, Op, Rows},
    tape::{Step, Tape},
    weights::{Metadata, safetensors::Header},
};
use pollster::block_on;

use super::{
    golden::{self, folder},
    random::Random,
    safetensors::Safetensors,
    weights,
};

/// A golden checkpoint of each family and feature.
pub const CHECKPOINTS: [&str; 28] = [
    "cohere",
    "cohere-qk",
    "gemma",
    "gemma2",
    "gemma3",
    "gpt2",
    "gpt2-bare",
    "gpt_neox",
    "granite",
    "lfm2",
    "llama",
    "llama-bf16",
    "llama-draft",
    "llama-linear",
    "llama-llama3",
    "llama-tied",
    "llama-yarn",
    "mistral",
    "olmo2",
    "olmoe",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen3-f16",
    "qwen3_moe",
    "smollm3",
    "stablelm",
    "stablelm-qk",
];

/// Positions in a page of a cache made by [`Model::prepare`]: few, so that sequences have several.
pub const PAGE: usize = 4;

/// The files of a checkpoint, each by its name.
#[derive(Clone)]
pub struct Files {
    pub config: Vec<u8>,
    pub tokenizer: Vec<u8>,
    pub tokenizer_config: Vec<u8>,
    pub generation_config: Vec<u8>,
    /// Weight files and, if there are several, their index.
    pub weights: Vec<Vec<u8>>,
    pub index: Option<Vec<u8>>,
}

/// The checkpoint in `models/<name>` with the configuration in `config`, one of two spellings.
pub fn files(name: &str, config: &str) -> Files {
    let read = |file: &str| fs::read(folder().join("models").join(name).join(file)).unwrap();
    Files {
        config: read(config),
        tokenizer: read("tokenizer.json"),
        tokenizer_config: read("tokenizer_config.json"),
        generation_config: read("generation_config.json"),
        weights: vec![read("model.safetensors")],
        index: None,
    }
}

/// A model of one layer and random weights whose matrices all have columns in multiples of 32, with the
/// tokenizer of another.
pub fn wide() -> Files {
    let (hidden, intermediate, vocabulary) = (64, 96, 403);
    let mut files = files("llama", "config.json");
    let mut config: serde_json::Value = serde_json::from_slice(&files.config).unwrap();
    for (key, value) in [
        ("hidden_size", hidden),
        ("intermediate_size", intermediate),
        ("num_attention_heads", 4),
        ("num_key_value_heads", 2),
        ("head_dim", 16),
        ("num_hidden_layers", 1),
    ] {
        config[key] = value.into();
    }
    config["tie_word_embeddings"] = true.into();
    files.config = config.to_string().into_bytes();
    let mut random = Random(3);
    let mut weights = Safetensors::default();
    let layer = "model.layers.0";
    for (name, rows, columns) in [
        ("model.embed_tokens".to_owned(), vocabulary, hidden),
        (format!("{layer}.input_layernorm"), 0, hidden),
        (format!("{layer}.self_attn.q_proj"), hidden, hidden),
        (format!("{layer}.self_attn.k_proj"), hidden / 2, hidden),
        (format!("{layer}.self_attn.v_proj"), hidden / 2, hidden),
        (format!("{layer}.self_attn.o_proj"), hidden, hidden),
        (format!("{layer}.post_attention_layernorm"), 0, hidden),
        (format!("{layer}.mlp.gate_proj"), intermediate, hidden),
        (format!("{layer}.mlp.up_proj"), intermediate, hidden),
        (format!("{layer}.mlp.down_proj"), hidden, intermediate),
        ("model.norm".to_owned(), 0, hidden),
    ] {
        let shape: Vec<u64> = match rows {
            0 => vec![columns],
            rows => vec![rows, columns],
        };
        let values = random.values(shape.iter().product::<u64>() as usize, 0.2);
        let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        weights = weights.tensor(&format!("{name}.weight"), "F32", &shape, data);
    }
    files.weights = vec![weights.build()];
    files
}

impl Files {
    /// The files that a loader reads first.
    pub fn small(&self) -> CheckpointFiles<'_> {
        CheckpointFiles {
            config: &self.config,
            tokenizer: &self.tokenizer,
            tokenizer_config: Some(&self.tokenizer_config),
            chat_template: None,
            generation_config: Some(&self.generation_config),
            index: self.index.as_deref(),
        }
    }

    /// The same with the tensors dealt out to `count` files in turn, as a large model's are.
    pub fn sharded(mut self, count: usize) -> Self {
        let whole = Safetensors::read(&self.weights[0]);
        let name = |at: usize| format!("model-{:05}-of-{count:05}.safetensors", at + 1);
        let mut shards = vec![Safetensors::default(); count];
        let mut map = serde_json::Map::new();
        for (i, tensor) in whole.tensors.into_iter().enumerate() {
            map.insert(tensor.name.clone(), name(i % count).into());
            shards[i % count].tensors.push(tensor);
        }
        self.weights = shards.iter().map(Safetensors::build).collect();
        let index = serde_json::json!({ "metadata": { "total_size": 1 }, "weight_map": map });
        self.index = Some(index.to_string().into_bytes());
        self
    }

    /// An engine, loaded in pieces of `piece` bytes.
    pub fn engine(
        &self,
        executor: Box<dyn Executor>,
        options: LoadOptions,
        piece: usize,
    ) -> decant::error::Result<Engine> {
        block_on(async {
            let mut loader = Loader::checkpoint(executor, options, &self.small())?;
            if self.weights.len() > 1 {
                for (at, file) in self.weights.iter().enumerate() {
                    loader.begin(at, Some(file.len() as u64))?;
                    for piece in file.chunks(piece) {
                        if !loader.push(piece).await? {
                            break;
                        }
                    }
                }
            }
            for (at, file) in self.weights.iter().enumerate() {
                loader.begin(at, Some(file.len() as u64))?;
                for piece in file.chunks(piece) {
                    loader.push(piece).await?;
                }
            }
            loader.finish().await
        })
    }

    /// The model of a checkpoint in one file.
    pub fn model(&self) -> decant::error::Result<Model> {
        let file = &self.weights[0];
        let header = Header::new(Some(file.len() as u64)).push(file)?;
        let (mut index, _) = header.expect("the whole file is there");
        index.metadata = Metadata::from_json("config.json", &self.config)?;
        let tensors = index.tensors.iter().map(|tensor| {
            let begin = tensor.offset as usize;
            file[begin..begin + tensor.spec.bytes()].to_vec()
        });
        let tensors = tensors.collect();
        Ok(Model {
            graph: Graph::from_index(index, GraphOptions::default())?,
            tensors,
        })
    }
}

/// A described model and the bytes of its tensors.
pub struct Model {
    pub graph: Graph,
    pub tensors: Vec<Vec<u8>>,
}

impl Model {
    /// Loads the model into `executor` with room for one sequence, and prepares `tapes`.
    pub fn prepare(&self, executor: &mut dyn Executor, tapes: Vec<Tape>) {
        let allocation = self.allocation(&tapes);
        block_on(executor.allocate(allocation)).unwrap();
        weights::write(&self.graph, &self.tensors, executor);
        block_on(executor.prepare(tapes)).unwrap();
    }

    /// Room for the model and one sequence.
    pub fn allocation(&self, tapes: &[Tape]) -> Allocation {
        let pages = self.graph.context_length.div_ceil(PAGE);
        Allocation {
            weights: self.graph.weights.iter().map(|w| w.spec.clone()).collect(),
            groups: tapes[tapes.len() - 1].groups(self.graph.weights.len()),
            cache: self.graph.cache(CacheType::F32, PAGE, pages),
            sequences: 1,
            pages_per_sequence: pages,
        }
    }

    /// Tapes of `rows` rows that end before the first layer, after each, and with the logits. A layer adds
    /// to the residual stream twice.
    pub fn layer_tapes(&self, rows: usize) -> Vec<Tape> {
        let whole = self.graph.tape(rows, rows).unwrap();
        let adds = |op: &Op| match op {
            Op::MatMul(op) => named(&whole, op.out, HIDDEN),
            Op::Norm(op) => named(&whole, op.out, HIDDEN),
            Op::Experts(op) => named(&whole, op.out, HIDDEN),
            _ => false,
        };
        let embeds = whole.ops.iter().take_while(|op| matches!(op, Op::Embed(_)));
        let mut ends = vec![embeds.count()];
        let sums = whole.ops.iter().enumerate().filter(|(_, op)| adds(op));
        ends.extend(sums.map(|(at, _)| at + 1).skip(1).step_by(2));
        assert_eq!(ends.len(), self.graph.config.layers.len() + 1);
        let cut = |end: usize| {
            let mut tape = whole.clone();
            tape.ops.truncate(end);
            tape
        };
        ends.into_iter().map(cut).chain([whole.clone()]).collect()
    }

    /// Runs both golden prompts of `models/<name>` on `executor`, at once and in chunks, and says what is too
    /// far from Hugging Face's numbers: logits, what every layer leaves, or the last norm.
    pub fn compare(
        &self,
        name: &str,
        mut executor: impl FnMut() -> Box<dyn Executor>,
    ) -> Vec<String> {
        let mut faults = Vec::new();
        for (number, prompt) in golden::forward(name).iter().enumerate() {
            let rows = prompt.input_ids.len();
            let mut tapes = self.layer_tapes(rows);
            let (whole, chunk) = (tapes.len() - 1, 3);
            let [hidden, normed] =
                [(HIDDEN, Rows::Tokens), ("normed", Rows::Outputs)].map(|(name, kind)| {
                    let mut specs = tapes[0].buffers.iter();
                    BufferId(
                        specs
                            .position(|spec| spec.name == name && spec.rows == kind)
                            .unwrap(),
                    )
                });
            tapes.push(self.graph.tape(chunk, chunk).unwrap());
            let mut executor = executor();
            self.prepare(&mut *executor, tapes);
            let mut check = |what: String, found: &[f32], expected: &[f32]| {
                let off = distance(found, expected);
                if off.is_nan() || off > 1.0 {
                    faults.push(format!("{name}, prompt {number}, {what}: {off}"));
                }
            };
            let all = Step {
                angles: vec![self.graph.angles(rows)],
                ..step(&prompt.input_ids, 0, rows)
            };
            assert_eq!(prompt.hidden.len(), whole);
            for (layer, expected) in prompt.hidden.iter().enumerate() {
                block_on(executor.forward(TapeId(layer), &all)).unwrap();
                let found = block_on(executor.read(TapeId(layer), hidden, rows)).unwrap();
                check(format!("layer {layer}"), &found, expected);
            }
            let found = block_on(executor.forward(TapeId(whole), &all)).unwrap();
            check("logits".into(), &found, &prompt.logits);
            let found = block_on(executor.read(TapeId(whole), normed, rows)).unwrap();
            check("last norm".into(), &found, &prompt.normed);
            let mut found = Vec::new();
            for (at, ids) in prompt.input_ids.chunks(chunk).enumerate() {
                let part = Step {
                    angles: all.angles.clone(),
                    ..step(ids, at * chunk, rows)
                };
                found.extend(block_on(executor.forward(TapeId(whole + 1), &part)).unwrap());
            }
            check("logits in chunks".into(), &found, &prompt.logits);
        }
        faults
    }

    /// Runs the longer golden prompt of `models/<name>`, some of whose layers have a window of `window`, so that steps
    /// end just before the window is full, when it is, just after, and when it has been full twice, and says which
    /// logits are too far from Hugging Face's, which come of one step.
    pub fn compare_windows(
        &self,
        name: &str,
        window: usize,
        executor: &mut dyn Executor,
    ) -> Vec<String> {
        let layers = self.graph.config.layers.iter();
        assert!(layers.clone().any(|layer| layer.window == Some(window)));
        let prompt = &golden::forward(name)[1];
        let length = prompt.input_ids.len();
        assert!(length > 2 * window);
        self.prepare(executor, vec![self.graph.tape(length, length).unwrap()]);
        let vocabulary = prompt.logits.len() / length;
        let mut faults = Vec::new();
        for (first, then) in [
            (window - 1, 1),
            (window, 1),
            (window + 1, 1),
            (2 * window + 1, 1),
            (window - 1, window - 1),
            (window, window),
            (length, 1),
        ] {
            let mut at = 0;
            while at < length {
                let end = length.min(at + if at == 0 { first } else { then });
                let part = Step {
                    angles: vec![self.graph.angles(length)],
                    ..step(&prompt.input_ids[at..end], at, length)
                };
                let found = block_on(executor.forward(TapeId(0), &part)).unwrap();
                let off = distance(&found, &prompt.logits[at * vocabulary..end * vocabulary]);
                if off.is_nan() || off > 1.0 {
                    faults.push(format!(
                        "{name}, {first} and then {then} at once, {at}..{end}: {off}"
                    ));
                }
                at = end;
            }
        }
        faults
    }
}

/// The name of the residual stream's buffer.
const HIDDEN: &str = "hidden";

fn named(tape: &Tape, buffer: BufferId, name: &str) -> bool {
    tape.buffers[buffer.0].name == name
}

/// A step of one sequence from position `at` on, whose rows all give logits. Pages in an order of their
/// own show that positions go through the table.
pub fn step(ids: &[u32], at: usize, length: usize) -> Step {
    let rows = ids.len() as u32;
    Step {
        tokens: ids.to_vec(),
        positions: (0..rows).map(|row| at as u32 + row).collect(),
        slots: vec![0; ids.len()],
        outputs: (0..rows).collect(),
        tables: vec![(0..length.div_ceil(PAGE) as u32).rev().collect()],
        ..Step::default()
    }
}

/// The largest `|actual − expected|` in units of what is allowed: 2e-4 absolute + 1e-3 relative.
pub fn distance(actual: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(actual.len(), expected.len());
    assert!(!expected.is_empty());
    let off = |(a, e): (&f32, &f32)| (a - e).abs() / (2e-4 + 1e-3 * e.abs());
    let worst = |worst: f32, off: f32| match off > worst || off.is_nan() {
        true => off,
        false => worst,
    };
    actual.iter().zip(expected).map(off).fold(0.0, worst)
}
