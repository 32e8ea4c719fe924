//! From a model file's header to forward passes.
//!
//! A *family* is one file: it reads its own keys into a [`ModelConfig`] and writes its forward pass,
//! top to bottom, with the [`Builder`]. [`Graph::from_index`] finds the family by the architecture's
//! name. To add an architecture, write such a file and add it to [`FAMILIES`].

mod builder;
mod config;
mod llama;
mod rope;

pub use builder::{Builder, WeightEntry, WeightSource};
pub use config::{ModelConfig, Rope};

use crate::{
    error::{Error, Result},
    ops::{CacheSpec, CacheType},
    tape::Tape,
    weights::{Index, Metadata},
};

/// An architecture: how to read its keys, and its forward pass.
pub struct Family {
    /// `general.architecture` in GGUF files.
    pub name: &'static str,
    /// Reads the keys of the header.
    pub config: fn(&Metadata) -> Result<ModelConfig>,
    /// Appends the forward pass, from token ids to logits.
    pub forward: fn(&mut Builder, &ModelConfig) -> Result<()>,
}

/// Every architecture there is.
pub const FAMILIES: &[Family] = &[llama::FAMILY];

/// A model without its weights' values: what to load and what to run.
pub struct Graph {
    /// Sizes and constants.
    pub config: ModelConfig,
    /// Positions that a sequence may have, at most `config.max_positions`.
    pub context_length: usize,
    /// What to load, by [`WeightId`](crate::ops::WeightId).
    pub weights: Vec<WeightEntry>,
    family: &'static Family,
    index: Index,
}

impl Graph {
    /// Describes the model in `index`. `context_length` defaults to the smaller of what the model was
    /// trained for and 4096.
    ///
    /// Fails with `Unsupported` for an architecture or a feature there is no code for, and with
    /// `InvalidWeights` naming the key or tensor that is missing or does not fit.
    pub fn from_index(index: Index, context_length: Option<usize>) -> Result<Self> {
        let name = index.metadata.str("general.architecture")?;
        let name =
            name.ok_or_else(|| Error::weights("general.architecture", "the key is missing"))?;
        let family = FAMILIES
            .iter()
            .find(|family| family.name == name)
            .ok_or_else(|| {
                let known: Vec<_> = FAMILIES.iter().map(|family| family.name).collect();
                let known = known.join(", ");
                Error::unsupported(format!(
                    "architecture {name:?} is not supported; supported are {known}"
                ))
            })?;
        let config = (family.config)(&index.metadata)?;
        config.check()?;
        let context_length = context_length.unwrap_or(config.max_positions.min(4096));
        if context_length == 0 || context_length > config.max_positions {
            return Err(Error::option(
                "contextLength",
                format!(
                    "{context_length} is not between 1 and {}, the model's own",
                    config.max_positions
                ),
            ));
        }
        let mut graph = Self {
            config,
            context_length,
            weights: Vec::new(),
            family,
            index,
        };
        graph.weights = graph.build(1, 1)?.1;
        graph.check_all_used()?;
        Ok(graph)
    }

    /// The forward pass for up to `max_rows` tokens, of which up to `max_outputs` give logits.
    pub fn tape(&self, max_rows: usize, max_outputs: usize) -> Result<Tape> {
        Ok(self.build(max_rows, max_outputs)?.0)
    }

    /// The cache this model needs.
    pub fn cache(&self, dtype: CacheType, page_size: usize, pages: usize) -> CacheSpec {
        let ModelConfig {
            layers,
            kv_heads,
            head_dim,
            ..
        } = self.config;
        CacheSpec {
            layers,
            kv_heads,
            head_dim,
            dtype,
            page_size,
            pages,
        }
    }

    /// The header this model was described by.
    pub fn index(&self) -> &Index {
        &self.index
    }

    fn build(&self, max_rows: usize, max_outputs: usize) -> Result<(Tape, Vec<WeightEntry>)> {
        let mut builder = Builder::new(&self.index, self.context_length, max_rows, max_outputs);
        (self.family.forward)(&mut builder, &self.config)?;
        builder.finish()
    }

    /// A tensor that nothing reads is a feature this code does not know: the answer would be wrong.
    fn check_all_used(&self) -> Result<()> {
        let used = |at: usize| {
            self.weights
                .iter()
                .any(|w| w.source == WeightSource::Tensor(at))
        };
        match (0..self.index.tensors.len()).find(|&at| !used(at)) {
            None => Ok(()),
            Some(at) => Err(Error::unsupported(format!(
                "{}: the file holds this tensor, but the {} architecture as supported here does not use it",
                self.index.tensors[at].spec.name, self.family.name
            ))),
        }
    }
}
