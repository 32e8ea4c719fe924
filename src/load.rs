//! A model file, as its bytes arrive, to an engine that generates.
//!
//! This is where the rooms meet: the header describes the model, the executor makes room for it, and
//! each further piece of the file goes to the device and is forgotten.

use std::rc::Rc;

use crate::{
    error::{Error, Result},
    exec::{Allocation, Executor},
    generation::{Capacity, Engine, EngineParts, ModelFacts, TapeSize, Value},
    model::{Graph, WeightSource},
    ops::{CacheType, WeightId},
    tokenizer::{TokenKind, Tokenizer, Vocabulary},
    weights::{Metadata, TensorStream, gguf::Header},
};

/// Positions in a page of the cache: small enough that a fork copies little, large enough that a page
/// table is short.
pub const PAGE_SIZE: usize = 32;

/// The most sequences of a step.
pub const SEQUENCES: usize = 16;

/// The passes that are prepared: one token, and many while a prompt is read or sequences run together.
const TAPES: [TapeSize; 2] = [
    TapeSize {
        max_rows: 1,
        max_outputs: 1,
    },
    TapeSize {
        max_rows: 128,
        max_outputs: SEQUENCES,
    },
];

/// What the caller decides about a model.
#[derive(Debug, Clone, Copy)]
pub struct LoadOptions {
    /// Positions that all sequences in flight share; the model's own or 4096, if that is less.
    pub context_length: Option<usize>,
    /// How cache entries are stored.
    pub kv_cache: CacheType,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            context_length: None,
            kv_cache: CacheType::F16,
        }
    }
}

/// What a file's header says about the model, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The model's own name, or its architecture.
    pub name: String,
    /// The family.
    pub architecture: &'static str,
    /// Values of all tensors.
    pub parameters: u64,
    /// Bytes of all tensors in the file.
    pub weight_bytes: u64,
}

/// Takes a GGUF file piece by piece. An error ends the load; dropping the loader frees what it made.
pub struct Loader {
    executor: Box<dyn Executor>,
    options: LoadOptions,
    stage: Stage,
}

enum Stage {
    Header(Box<Header>),
    Weights(Box<Weights>),
}

struct Weights {
    graph: Graph,
    tokenizer: Tokenizer,
    stream: TensorStream,
    /// The weight that each tensor of the file becomes.
    targets: Vec<WeightId>,
}

impl Loader {
    /// A loader for a file of `file_size` bytes, where that is known: a file too short for what its
    /// header promises is then refused before its data is downloaded.
    pub fn new(executor: Box<dyn Executor>, options: LoadOptions, file_size: Option<u64>) -> Self {
        Self {
            executor,
            options,
            stage: Stage::Header(Box::new(Header::new(file_size))),
        }
    }

    /// Takes the next bytes of the file, cut anywhere.
    ///
    /// # Errors
    /// What is wrong with the file, by tensor or key; `OutOfMemory` or `Unsupported` when the device
    /// cannot hold the model, before any tensor is asked for.
    pub async fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let rest = match &mut self.stage {
            Stage::Weights(_) => bytes,
            Stage::Header(header) => {
                let Some((index, used)) = header.push(bytes)? else {
                    return Ok(());
                };
                let stream = TensorStream::new(&index);
                let tokenizer = Tokenizer::from_vocabulary(vocabulary(&index.metadata)?)?;
                let graph = Graph::from_index(index, self.options.context_length)?;
                let targets = self.allocate(&graph).await?;
                let weights = Weights {
                    graph,
                    tokenizer,
                    stream,
                    targets,
                };
                self.stage = Stage::Weights(Box::new(weights));
                &bytes[used..]
            }
        };
        let Stage::Weights(weights) = &mut self.stage else {
            unreachable!("set above")
        };
        let Weights {
            stream, targets, ..
        } = &mut **weights;
        let executor = &self.executor;
        stream.push(rest, &mut |tensor, first_block, blocks| {
            executor.write_weight(targets[tensor], first_block, blocks)
        })
    }

    /// What the header says, once it has been read.
    pub fn description(&self) -> Option<Description> {
        let Stage::Weights(weights) = &self.stage else {
            return None;
        };
        let (graph, specs) = (&weights.graph, weights.graph.index().tensors.iter());
        let specs = specs.map(|tensor| &tensor.spec);
        let name = graph.index().metadata.str("general.name").ok().flatten();
        Some(Description {
            name: name.unwrap_or(graph.config.architecture).to_owned(),
            architecture: graph.config.architecture,
            parameters: specs.clone().map(|s| (s.rows * s.columns) as u64).sum(),
            weight_bytes: specs.map(|spec| spec.bytes() as u64).sum(),
        })
    }

    /// The file has ended: the engine, ready to generate.
    ///
    /// # Errors
    /// The tensor in which the file ends too early; whatever keeps the device from making its kernels.
    pub async fn finish(mut self) -> Result<Engine> {
        let weights = match self.stage {
            Stage::Weights(weights) => *weights,
            Stage::Header(header) => {
                header.finish()?;
                return Err(Error::internal("a header that ended was not taken"));
            }
        };
        weights.stream.finish()?;
        let graph = weights.graph;
        let tapes = TAPES
            .iter()
            .map(|size| graph.tape(size.max_rows, size.max_outputs));
        self.executor.prepare(tapes.collect::<Result<_>>()?).await?;
        let tokenizer = weights.tokenizer;
        Engine::new(EngineParts {
            executor: Rc::from(self.executor),
            capacity: Capacity {
                tapes: TAPES.to_vec(),
                sequences: SEQUENCES,
            },
            cache: graph.cache(self.options.kv_cache, PAGE_SIZE, pages(&graph)),
            model: ModelFacts {
                vocabulary: graph.config.vocabulary,
                context_length: graph.context_length,
                bos_token_id: tokenizer.bos_token_id(),
                eos_token_ids: tokenizer.eos_token_ids().to_vec(),
                pad_token_id: tokenizer.pad_token_id(),
            },
            tokenizer,
            // A GGUF file has none.
            generation_config: Value::Null,
        })
    }

    /// Makes room on the device, and fills the weights that no file holds.
    async fn allocate(&mut self, graph: &Graph) -> Result<Vec<WeightId>> {
        let pages = pages(graph);
        self.executor
            .allocate(Allocation {
                weights: graph
                    .weights
                    .iter()
                    .map(|weight| weight.spec.clone())
                    .collect(),
                cache: graph.cache(self.options.kv_cache, PAGE_SIZE, pages),
                sequences: SEQUENCES,
                pages_per_sequence: pages,
            })
            .await?;
        let mut targets = vec![WeightId(usize::MAX); graph.index().tensors.len()];
        for (id, weight) in graph.weights.iter().enumerate() {
            match &weight.source {
                WeightSource::Tensor(tensor) => targets[*tensor] = WeightId(id),
                WeightSource::Values(values) => {
                    self.executor
                        .write_weight(WeightId(id), 0, bytemuck::cast_slice(values))?;
                }
            }
        }
        Ok(targets)
    }
}

fn pages(graph: &Graph) -> usize {
    graph.context_length.div_ceil(PAGE_SIZE)
}

/// The vocabulary in a header's keys.
pub fn vocabulary(metadata: &Metadata) -> Result<Vocabulary> {
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let text = |name: &str| Ok(metadata.str(&key(name))?.map(str::to_owned));
    let list = |name: &str| Ok(metadata.strings(&key(name))?.unwrap_or_default().to_vec());
    let id = |name: &str| metadata.u32(&key(&format!("{name}_token_id")));
    let missing = |name: &str| Error::weights(key(name), "the key is missing");
    let kinds = metadata.integers(&key("token_type"))?.unwrap_or_default();
    let named = metadata
        .0
        .keys()
        .filter_map(|name| name.strip_prefix("tokenizer.chat_template."));
    let named = named.map(|name| {
        let template = metadata.str(&format!("tokenizer.chat_template.{name}"))?;
        Ok((name.to_owned(), template.unwrap_or_default().to_owned()))
    });
    Ok(Vocabulary {
        model: text("model")?.ok_or_else(|| missing("model"))?,
        pre: text("pre")?.unwrap_or_else(|| "default".into()),
        tokens: list("tokens")?,
        kinds: kinds
            .iter()
            .map(|&code| TokenKind::from_code(code))
            .collect::<Result<_>>()?,
        merges: list("merges")?,
        bos: id("bos")?,
        eos: id("eos")?,
        eot: id("eot")?,
        unknown: id("unknown")?,
        padding: id("padding")?,
        add_bos: metadata.bool(&key("add_bos_token"))?,
        add_eos: metadata.bool(&key("add_eos_token"))?,
        add_space_prefix: metadata.bool(&key("add_space_prefix"))?,
        chat_template: metadata.str("tokenizer.chat_template")?.map(str::to_owned),
        named_chat_templates: named.collect::<Result<_>>()?,
    })
}
