//! Model files, as their bytes arrive, to an engine that generates.
//!
//! This is where the rooms meet: headers describe the model, the executor makes room for it, and each
//! further piece of a file goes to the device and is forgotten.

mod angles;
mod headers;
mod source;
mod vocabulary;

use std::rc::Rc;

use self::{angles::Factors, headers::Headers, source::Source};
pub use self::{
    source::{CheckpointFiles, check_config},
    vocabulary::vocabulary,
};
use crate::{
    error::{Error, ErrorKind, Result},
    exec::{Allocation, Executor},
    generation::{Capacity, Engine, EngineParts, LongAngles, TapeSize},
    model::{Graph, GraphOptions},
    ops::{CacheType, WeightId},
    tensor::DType,
    tokenizer::Tokenizer,
    weights::{Assembler, Index, TensorStream},
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
    /// What matrices of plain numbers become on the way to the device: Q8_0 or Q4_0, or nothing else.
    pub quantise: Option<DType>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            context_length: None,
            kv_cache: CacheType::F16,
            quantise: None,
        }
    }
}

/// What a model's files say about it, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The model's own name, or its architecture.
    pub name: String,
    /// The family.
    pub architecture: &'static str,
    /// Values of all weights.
    pub parameters: u64,
    /// Bytes of all weights, as they are kept.
    pub weight_bytes: u64,
    /// What was quantised and what was not, if that was asked for.
    pub quantised: Option<String>,
}

/// Takes a model's files piece by piece. An error ends the load; dropping the loader frees what it made.
///
/// A model in one file is pushed from the first byte to the last. Of several files the headers come first,
/// because nothing can be placed before all tensors are known: [`begin`](Self::begin) each, and push until
/// [`push`](Self::push) answers that it has enough; then begin each again, and push all of it.
pub struct Loader {
    executor: Box<dyn Executor>,
    options: LoadOptions,
    source: Source,
    stage: Stage,
}

enum Stage {
    Headers(Headers),
    Weights(Box<Weights>),
}

struct Weights {
    graph: Graph,
    tokenizer: Tokenizer,
    files: Vec<File>,
    /// The file that is being pushed.
    current: usize,
    assembler: Assembler,
    factors: Factors,
}

struct File {
    stream: TensorStream,
    /// The place of its first tensor among those of all files.
    first: usize,
}

impl Loader {
    /// A loader for a single GGUF file of `file_size` bytes, where that is known: a file too short for what
    /// its header promises is then refused before its data is downloaded.
    pub fn new(executor: Box<dyn Executor>, options: LoadOptions, file_size: Option<u64>) -> Self {
        let mut loader = Self::gguf(executor, options, 1);
        if let Stage::Headers(headers) = &mut loader.stage {
            headers.begin(0, file_size);
        }
        loader
    }

    /// A loader for a GGUF model in `files` files.
    pub fn gguf(executor: Box<dyn Executor>, options: LoadOptions, files: usize) -> Self {
        Self {
            executor,
            options,
            source: Source::Gguf { files },
            stage: Stage::Headers(Headers::gguf(files)),
        }
    }

    /// A loader for a checkpoint, of which everything but the weights is in `files`.
    ///
    /// # Errors
    /// A file is damaged, or asks for what is not supported: an architecture, a feature of it, a tokenizer.
    pub fn checkpoint(
        executor: Box<dyn Executor>,
        options: LoadOptions,
        files: &CheckpointFiles,
    ) -> Result<Self> {
        let source = Source::checkpoint(files, options.context_length)?;
        let stage = Stage::Headers(Headers::safetensors(source.files().len()));
        Ok(Self {
            executor,
            options,
            source,
            stage,
        })
    }

    /// The names of a checkpoint's weight files, in the order in which they are numbered.
    pub fn files(&self) -> Vec<String> {
        self.source.files()
    }

    /// The next bytes are the first of file `file`, which has `size` bytes, where that is known.
    ///
    /// # Errors
    /// `InvalidWeights` if the file before has ended inside its header; `Internal` if there is no such file.
    pub fn begin(&mut self, file: usize, size: Option<u64>) -> Result<()> {
        if file >= self.source.count() {
            return Err(Error::internal(format!("there is no file {file}")));
        }
        match &mut self.stage {
            Stage::Headers(headers) => {
                headers.check_ended()?;
                headers.begin(file, size);
            }
            Stage::Weights(weights) => weights.current = file,
        }
        Ok(())
    }

    /// Takes the next bytes of the file, cut anywhere, and answers whether more of it is wanted now.
    ///
    /// # Errors
    /// What is wrong with the file, by tensor or key; `OutOfMemory` or `Unsupported` when the device
    /// cannot hold the model, before any tensor is asked for.
    pub async fn push(&mut self, bytes: &[u8]) -> Result<bool> {
        let rest = match &mut self.stage {
            Stage::Weights(_) => bytes,
            Stage::Headers(headers) => {
                let Some(used) = headers.push(bytes)? else {
                    return Ok(true);
                };
                if let Some(indices) = headers.take_if_complete() {
                    self.describe(indices).await?;
                }
                if self.source.count() > 1 {
                    return Ok(false);
                }
                &bytes[used..]
            }
        };
        let Stage::Weights(weights) = &mut self.stage else {
            return Err(Error::internal("a single header did not describe a model"));
        };
        let Weights {
            files,
            current,
            assembler,
            factors,
            ..
        } = &mut **weights;
        let (file, executor) = (&mut files[*current], &self.executor);
        file.stream.push(rest, &mut |tensor, block, blocks| {
            let write = &mut |weight, block, blocks: &[u8]| {
                executor.write_weight(WeightId(weight), block, blocks)
            };
            factors.push(file.first + tensor, blocks);
            assembler.push(file.first + tensor, block, blocks, write)
        })?;
        Ok(true)
    }

    /// What the headers say, once they have been read.
    pub fn description(&self) -> Option<Description> {
        let Stage::Weights(weights) = &self.stage else {
            return None;
        };
        let graph = &weights.graph;
        let metadata = &graph.index().metadata;
        let name = ["general.name", "_name_or_path"]
            .iter()
            .find_map(|key| metadata.str(key).ok().flatten())
            .filter(|name| !name.is_empty());
        let specs: Vec<_> = graph.stored().map(|(_, spec, _)| spec).collect();
        Some(Description {
            name: name.unwrap_or(graph.config.architecture).to_owned(),
            architecture: graph.config.architecture,
            parameters: specs.iter().map(|s| s.rows as u64 * s.columns as u64).sum(),
            weight_bytes: specs.iter().map(|spec| spec.bytes() as u64).sum(),
            quantised: self.options.quantise.map(|dtype| quantised(graph, dtype)),
        })
    }

    /// The files have ended: the engine, ready to generate.
    ///
    /// # Errors
    /// The tensor in which a file ends too early; whatever keeps the device from making its kernels.
    pub async fn finish(mut self) -> Result<Engine> {
        let weights = match self.stage {
            Stage::Weights(weights) => *weights,
            Stage::Headers(headers) => return Err(headers.finish()),
        };
        for file in &weights.files {
            file.stream.finish()?;
        }
        weights.assembler.finish()?;
        let graph = weights.graph;
        weights.factors.write(&graph, &*self.executor)?;
        let tapes = TAPES
            .iter()
            .map(|size| graph.tape(size.max_rows, size.max_outputs));
        self.executor.prepare(tapes.collect::<Result<_>>()?).await?;
        // Without it the host chooses tokens, as the plan of each call says.
        let sampling = self.executor.prepare_sampling().await;
        if let Err(error) = sampling
            && !matches!(
                error.kind(),
                ErrorKind::OutOfMemory | ErrorKind::Unsupported
            )
        {
            return Err(error);
        }
        let tokenizer = weights.tokenizer;
        let model = self
            .source
            .facts(&graph.config, graph.context_length, &tokenizer);
        Engine::new(EngineParts {
            executor: Rc::from(self.executor),
            capacity: Capacity {
                tapes: TAPES.to_vec(),
                sequences: SEQUENCES,
            },
            cache: graph.cache(self.options.kv_cache, PAGE_SIZE, pages(&graph)),
            long: long_angles(&graph),
            model,
            tokenizer,
            generation_config: self.source.generation_config(),
        })
    }

    /// All headers are there: what the model is, and room for it on the device.
    async fn describe(&mut self, indices: Vec<Index>) -> Result<()> {
        self.source.check(&indices)?;
        let several = indices.len() > 1;
        let mut files = Vec::new();
        let mut first = 0;
        for index in &indices {
            let stream = TensorStream::new(index);
            files.push(File {
                // Several files are pushed from their beginning once more.
                stream: if several {
                    stream.with_header()
                } else {
                    stream
                },
                first,
            });
            first += index.tensors.len();
        }
        let mut index = Index::join(indices)?;
        let tokenizer = self.source.complete(&mut index)?;
        let options = GraphOptions {
            context_length: self.options.context_length,
            quantise: self.options.quantise,
        };
        let graph = Graph::from_index(index, options)?;
        self.allocate(&graph).await?;
        let assembler = Assembler::new(&graph.index().tensors, graph.stored());
        let factors = Factors::new(&graph);
        for file in &mut files {
            let first = file.first;
            file.stream
                .set_grains(|tensor| assembler.grain(first + tensor));
        }
        self.stage = Stage::Weights(Box::new(Weights {
            graph,
            tokenizer,
            files,
            current: 0,
            assembler,
            factors,
        }));
        Ok(())
    }

    /// Makes room on the device.
    async fn allocate(&mut self, graph: &Graph) -> Result<()> {
        let pages = pages(graph);
        let weights = graph.weights.iter();
        self.executor
            .allocate(Allocation {
                weights: weights.map(|weight| weight.spec.clone()).collect(),
                groups: graph.tape(1, 1)?.groups(graph.weights.len()),
                cache: graph.cache(self.options.kv_cache, PAGE_SIZE, pages),
                sequences: SEQUENCES,
                pages_per_sequence: pages,
            })
            .await
    }
}

/// The angles of long sequences, where they are others.
pub fn long_angles(graph: &Graph) -> Option<LongAngles> {
    let after = graph.original_length()?;
    let first = graph.angles(after + 1);
    Some(LongAngles { after, first })
}

fn pages(graph: &Graph) -> usize {
    graph.context_length.div_ceil(PAGE_SIZE)
}

/// What became of the tensors of a model that was to be quantised.
fn quantised(graph: &Graph, dtype: DType) -> String {
    let tensors = &graph.index().tensors;
    let (mut converted, mut kept) = (0, 0);
    for (_, spec, recipe) in graph.stored() {
        let was = recipe
            .parts
            .first()
            .map(|part| tensors[part.tensor].spec.dtype);
        if spec.dtype == dtype && was != Some(dtype) {
            converted += 1;
        } else {
            kept += 1;
        }
    }
    format!(
        "{converted} matrices were quantised to {} while loading; {kept} weights stay as they are stored",
        dtype.name()
    )
}
