//! What a model comes with besides its weights, in either format.

use serde_json::Value as Json;

use super::vocabulary;
use crate::{
    error::{Error, ErrorKind, Result},
    generation::{ModelFacts, Plan, Value},
    model::{self, ModelConfig},
    tokenizer::Tokenizer,
    weights::{Format, Index, Metadata, Value as Number, safetensors::Shards},
};

/// The name of the weight file of a checkpoint that has only one.
const SINGLE: &str = "model.safetensors";

/// The small files of a Hugging Face checkpoint, as they are.
#[derive(Debug, Clone, Copy, Default)]
pub struct CheckpointFiles<'a> {
    /// `config.json`.
    pub config: &'a [u8],
    /// `tokenizer.json`.
    pub tokenizer: &'a [u8],
    /// `tokenizer_config.json`.
    pub tokenizer_config: Option<&'a [u8]>,
    /// `chat_template.jinja`, which goes before a template in `tokenizer_config.json`.
    pub chat_template: Option<&'a [u8]>,
    /// `generation_config.json`.
    pub generation_config: Option<&'a [u8]>,
    /// `model.safetensors.index.json`, if there are several weight files.
    pub index: Option<&'a [u8]>,
}

/// Where a model comes from.
pub(super) enum Source {
    Gguf { files: usize },
    Checkpoint(Box<Checkpoint>),
}

pub(super) struct Checkpoint {
    metadata: Metadata,
    tokenizer: Tokenizer,
    ids: SpecialIds,
    generation_config: Value,
    shards: Option<Shards>,
}

/// Ids that `config.json` gives.
#[derive(Clone, Default)]
struct SpecialIds {
    bos: Option<u32>,
    eos: Option<Vec<u32>>,
    pad: Option<u32>,
}

/// Fails if a checkpoint with this `config.json` is not supported, as far as can be known without its
/// tensors.
///
/// # Errors
/// Those of [`Loader::checkpoint`](super::Loader::checkpoint) that concern this file.
pub fn check_config(config: &[u8]) -> Result<()> {
    read_config(config).map(drop)
}

fn read_config(config: &[u8]) -> Result<(Metadata, ModelConfig)> {
    let metadata = Metadata::from_json("config.json", config)?;
    let (_, config) = model::describe(&metadata, Format::Checkpoint)?;
    Ok((metadata, config))
}

impl SpecialIds {
    fn read(metadata: &Metadata) -> Result<Self> {
        const EOS: &str = "eos_token_id";
        const PAD: &str = "pad_token_id";
        // One id or a list of them.
        let eos = match metadata.integers(EOS) {
            Ok(None) => None,
            Ok(Some(ids)) => {
                let ids = ids.iter().map(|&id| u32::try_from(id));
                let ids = ids.collect::<std::result::Result<_, _>>();
                Some(ids.map_err(|_| Error::weights(EOS, "an id is not a 32-bit integer"))?)
            }
            Err(_) => metadata.u32(EOS)?.map(|id| vec![id]),
        };
        // The first Llamas say -1 where they have none.
        let pad = match metadata.get(PAD) {
            Some(Number::Signed(-1)) => None,
            _ => metadata.u32(PAD)?,
        };
        Ok(Self {
            bos: metadata.u32("bos_token_id")?,
            eos,
            pad,
        })
    }

    fn facts(
        &self,
        config: &ModelConfig,
        context_length: usize,
        tokenizer: &Tokenizer,
    ) -> ModelFacts {
        let eos = self.eos.clone();
        ModelFacts {
            vocabulary: config.vocabulary,
            context_length,
            bos_token_id: self.bos.or_else(|| tokenizer.bos_token_id()),
            eos_token_ids: eos.unwrap_or_else(|| tokenizer.eos_token_ids().to_vec()),
            pad_token_id: self.pad.or_else(|| tokenizer.pad_token_id()),
        }
    }
}

impl Source {
    /// Reads the small files of a checkpoint, and fails on what they ask for and is not supported.
    /// `wanted`: how many positions the caller wants.
    pub fn checkpoint(files: &CheckpointFiles, wanted: Option<usize>) -> Result<Self> {
        let (metadata, config) = read_config(files.config)?;
        let context_length = config.context_length(wanted)?;
        let mut tokenizer = Tokenizer::from_json(files.tokenizer, files.tokenizer_config)?;
        if let Some(template) = files.chat_template {
            let template = std::str::from_utf8(template).map_err(|error| {
                let message = format!("chat_template.jinja: {error}");
                Error::new(ErrorKind::InvalidTemplate, message)
            })?;
            tokenizer = tokenizer.with_chat_template(template.into());
        }
        let generation_config = match files.generation_config {
            None => Value::Null,
            Some(text) => {
                const NAME: &str = "generation_config.json";
                let json: Json =
                    serde_json::from_slice(text).map_err(|e| Error::weights(NAME, e))?;
                if !json.is_object() {
                    return Err(Error::weights(NAME, "the file is not a JSON object"));
                }
                Value::from(&json)
            }
        };
        let ids = SpecialIds::read(&metadata)?;
        let facts = ids.facts(&config, context_length, &tokenizer);
        Plan::new(&Value::Null, &generation_config, &facts)?;
        Ok(Self::Checkpoint(Box::new(Checkpoint {
            metadata,
            tokenizer,
            ids,
            generation_config,
            shards: files.index.map(Shards::from_json).transpose()?,
        })))
    }

    /// How many files hold the weights.
    pub fn count(&self) -> usize {
        match self {
            Self::Gguf { files } => *files,
            Self::Checkpoint(checkpoint) => checkpoint
                .shards
                .as_ref()
                .map_or(1, |shards| shards.files.len()),
        }
    }

    /// The names of a checkpoint's weight files; none of GGUF files, whose names say nothing.
    pub fn files(&self) -> Vec<String> {
        match self {
            Self::Gguf { .. } => Vec::new(),
            Self::Checkpoint(checkpoint) => match &checkpoint.shards {
                Some(shards) => shards.files.clone(),
                None => vec![SINGLE.into()],
            },
        }
    }

    /// Fails if the files do not hold what was promised.
    pub fn check(&self, indices: &[Index]) -> Result<()> {
        match self {
            Self::Gguf { .. } => Ok(()),
            Self::Checkpoint(checkpoint) => match &checkpoint.shards {
                Some(shards) => shards.check(indices),
                None => Ok(()),
            },
        }
    }

    /// Gives `index` what its own file does not hold; answers the tokenizer.
    pub fn complete(&mut self, index: &mut Index) -> Result<Tokenizer> {
        match self {
            Self::Gguf { .. } => Tokenizer::from_vocabulary(vocabulary(&index.metadata)?),
            Self::Checkpoint(checkpoint) => {
                index.metadata = checkpoint.metadata.clone();
                Ok(checkpoint.tokenizer.clone())
            }
        }
    }

    /// What a plan needs to know of the model; ids in `config.json` go before the tokenizer's.
    pub fn facts(
        &self,
        config: &ModelConfig,
        context_length: usize,
        tokenizer: &Tokenizer,
    ) -> ModelFacts {
        let none = SpecialIds::default();
        let ids = match self {
            Self::Gguf { .. } => &none,
            Self::Checkpoint(checkpoint) => &checkpoint.ids,
        };
        ids.facts(config, context_length, tokenizer)
    }

    /// What `generation_config.json` holds; null where there is none.
    pub fn generation_config(self) -> Value {
        match self {
            Self::Gguf { .. } => Value::Null,
            Self::Checkpoint(checkpoint) => checkpoint.generation_config,
        }
    }
}
