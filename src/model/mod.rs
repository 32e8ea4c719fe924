//! From a model file's header to forward passes.
//!
//! A *family* is one file in `families/`: it reads its constants into a [`ModelConfig`], writes its forward
//! pass, top to bottom, with the [`Builder`], and says what its tensors are called in a Hugging Face
//! checkpoint. [`Graph::from_index`] finds the family by the architecture's name. To add an architecture,
//! write such a file and add it to [`FAMILIES`].

pub mod blocks;
mod builder;
mod config;
mod families;
mod keys;
pub mod names;
mod rope;
mod tensors;

use std::collections::HashMap;

pub use builder::{Builder, WeightEntry, WeightSource};
pub use config::{LayerConfig, Mixture, ModelConfig, NormConfig, activation};
pub use families::FAMILIES;
pub use keys::{Assumed, Defaults, Keys};
pub use names::{ChooseOutputs, Name, Outputs};
pub use rope::{Factors, Rope, Scaling};

use self::tensors::Tensors;
use crate::{
    error::{Error, Result},
    ops::{CacheSpec, CacheType},
    tape::Tape,
    tensor::{DType, WeightSpec},
    weights::{Format, Index, Metadata, Recipe},
};

/// An architecture: how to read its constants, its forward pass, and its names.
pub struct Family {
    /// What it is called here.
    pub name: &'static str,
    /// `general.architecture` in GGUF files.
    pub architectures: &'static [&'static str],
    /// `model_type` in `config.json`.
    pub model_types: &'static [&'static str],
    /// What tensors are called in checkpoints.
    pub names: &'static [Name],
    /// Ends of the names of tensors that checkpoints hold and no model needs, such as masks.
    pub needless: &'static [&'static str],
    /// What Hugging Face takes where `config.json` lacks a key.
    pub defaults: Defaults,
    /// Reads the constants.
    pub config: fn(&Keys) -> Result<ModelConfig>,
    /// Appends the forward pass, from token ids to logits.
    pub forward: fn(&mut Builder, &ModelConfig) -> Result<()>,
}

/// What the caller decides about a model.
#[derive(Debug, Clone, Copy, Default)]
pub struct GraphOptions {
    /// Positions of a sequence; by default the smaller of what the model was trained for and 4096.
    pub context_length: Option<usize>,
    /// What matrices of plain numbers become while they are loaded, if they can: Q8_0 or Q4_0.
    pub quantise: Option<DType>,
}

/// What matrices of plain numbers can become.
const QUANTISED: [DType; 2] = [DType::Q8_0, DType::Q4_0];

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
    /// Places in the index by name.
    places: HashMap<String, usize>,
    /// Whether the output matrix is the embedding, whatever else the file holds.
    tied: bool,
    quantise: Option<DType>,
}

/// The family of a model and its constants, checked as far as they can be without its tensors.
///
/// Fails as [`Graph::from_index`] does.
pub fn describe(metadata: &Metadata, format: Format) -> Result<(&'static Family, ModelConfig)> {
    read(&identify(metadata, format, None)?)
}

fn read(keys: &Keys) -> Result<(&'static Family, ModelConfig)> {
    let family = keys.family();
    let config = (family.config)(keys)?;
    config.check(keys)?;
    // What the tensors decide is compared with them later.
    TENSORS_DECIDE
        .iter()
        .try_for_each(|(name, _)| keys.flag(name).map(|_| ()))?;
    keys.check_all_read()?;
    Ok((family, config))
}

/// Flags of `config.json` that are the same as whether a tensor is there, in any layer that may have it.
const TENSORS_DECIDE: [(&str, &str); 6] = [
    ("attention_bias", "blk.*.attn_q.bias"),
    ("use_qkv_bias", "blk.*.attn_q.bias"),
    ("mlp_bias", "blk.*.ffn_up.bias"),
    ("use_qk_norm", "blk.*.attn_q_norm.weight"),
    ("qk_layernorm", "blk.*.attn_q_norm.weight"),
    ("conv_bias", "blk.*.shortconv.conv.bias"),
];

/// `places`: those of the tensors by name, if they are known.
fn identify<'a>(
    metadata: &'a Metadata,
    format: Format,
    places: Option<&'a HashMap<String, usize>>,
) -> Result<Keys<'a>> {
    type Names = fn(&'static Family) -> &'static [&'static str];
    let (key, what, names): (_, _, Names) = match format {
        Format::Gguf => ("general.architecture", "architecture", |f| f.architectures),
        Format::Checkpoint => ("model_type", "model_type", |f| f.model_types),
    };
    let found = metadata.str(key)?;
    let found = found.ok_or_else(|| Error::weights(key, "the key is missing"))?;
    let family = FAMILIES.iter().find(|f| names(f).contains(&found));
    let family = family.ok_or_else(|| {
        let known: Vec<_> = FAMILIES.iter().flat_map(names).copied().collect();
        let known = known.join(", ");
        Error::unsupported(format!(
            "{what} {found:?} is not supported; supported are {known}"
        ))
    })?;
    Ok(Keys::new(metadata, format, found, family, places))
}

impl Graph {
    /// Describes the model in `index`.
    ///
    /// Fails with `Unsupported` for an architecture or a feature there is no code for, and with
    /// `InvalidWeights` naming the key or tensor that is missing or does not fit.
    pub fn from_index(index: Index, options: GraphOptions) -> Result<Self> {
        let places = index.tensors.iter().enumerate();
        let places = places.map(|(at, tensor)| (tensor.spec.name.clone(), at));
        let places: HashMap<_, _> = places.collect();
        let keys = identify(&index.metadata, index.format, Some(&places))?;
        let (family, config) = read(&keys)?;
        let context_length = config.context_length(options.context_length)?;
        if let Some(dtype) = options.quantise
            && !QUANTISED.contains(&dtype)
        {
            let message = format!("{} is not Q8_0 or Q4_0", dtype.name());
            return Err(Error::option("quantize", message));
        }
        let tied = match index.format {
            Format::Gguf => None,
            Format::Checkpoint => keys.flag("tie_word_embeddings")?,
        };
        let mut graph = Self {
            config,
            context_length,
            weights: Vec::new(),
            family,
            places,
            tied: tied == Some(true),
            quantise: options.quantise,
            index,
        };
        graph.weights = graph.build(1, 1)?.1;
        graph.check_flags(tied)?;
        graph.check_all_used()?;
        Ok(graph)
    }

    /// The forward pass for up to `max_rows` tokens, of which up to `max_outputs` give logits.
    pub fn tape(&self, max_rows: usize, max_outputs: usize) -> Result<Tape> {
        Ok(self.build(max_rows, max_outputs)?.0)
    }

    /// Positions after which a sequence takes other angles for all of its positions; never if `None`.
    pub fn original_length(&self) -> Option<usize> {
        self.config.ropes.iter().find_map(Rope::original)
    }

    /// The first row of the tables of angles for a sequence of `length` positions.
    pub fn angles(&self, length: usize) -> u32 {
        let long = self
            .original_length()
            .is_some_and(|original| length > original);
        if long { self.context_length as u32 } else { 0 }
    }

    /// The cache this model needs.
    pub fn cache(&self, dtype: CacheType, page_size: usize, pages: usize) -> CacheSpec {
        let config = &self.config;
        CacheSpec {
            layers: config.attention_layers(),
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            conv_layers: config.layers.len() - config.attention_layers(),
            conv_width: config.hidden,
            dtype,
            page_size,
            pages,
        }
    }

    /// The weights that are made of tensors: number, shape, and how.
    pub fn stored(&self) -> impl Iterator<Item = (usize, &WeightSpec, &Recipe)> {
        let weights = self.weights.iter().enumerate();
        weights.filter_map(|(id, weight)| match &weight.source {
            WeightSource::Tensors(recipe) => Some((id, &weight.spec, recipe)),
            WeightSource::Angles(..) => None,
        })
    }

    /// The header this model was described by.
    pub fn index(&self) -> &Index {
        &self.index
    }

    fn tensors(&self) -> Tensors<'_> {
        Tensors {
            index: &self.index,
            places: &self.places,
            names: self.family.names,
            config: &self.config,
            tied: self.tied,
            quantise: self.quantise,
        }
    }

    fn build(&self, max_rows: usize, max_outputs: usize) -> Result<(Tape, Vec<WeightEntry>)> {
        let mut builder = Builder::new(self.tensors(), self.context_length, max_rows, max_outputs);
        (self.family.forward)(&mut builder, &self.config)?;
        builder.finish()
    }

    /// Fails if `config.json` and the tensors tell different stories.
    fn check_flags(&self, tied: Option<bool>) -> Result<()> {
        if self.index.format == Format::Gguf {
            return Ok(());
        }
        let keys = identify(&self.index.metadata, self.index.format, None)?;
        let tensors = self.tensors();
        let mut flags = vec![(
            "tie_word_embeddings",
            tied.map(|tied| !tied),
            "output.weight",
        )];
        for (flag, tensor) in TENSORS_DECIDE {
            flags.push((flag, keys.flag(flag)?, tensor));
        }
        for (flag, wanted, tensor) in flags {
            let mut layers = 0..self.config.layers.len();
            let there = layers.any(|layer| tensors.has(&tensor.replace('*', &layer.to_string())));
            if wanted.is_some_and(|wanted| wanted != there) {
                let is = if there { "is there" } else { "is missing" };
                let message = format!(
                    "it contradicts the files, where the tensor that GGUF calls {tensor} {is}"
                );
                return Err(Error::weights(flag, message));
            }
        }
        Ok(())
    }

    /// A tensor that nothing reads, or of which something is left over, is a feature this code does not
    /// know: the answer would be wrong.
    fn check_all_used(&self) -> Result<()> {
        let mut used = vec![0u64; self.index.tensors.len()];
        for part in self.stored().flat_map(|(_, _, recipe)| &recipe.parts) {
            let rows = self.index.tensors[part.tensor].spec.rows;
            used[part.tensor] += (part.len * if part.transposed { rows } else { 1 }) as u64;
        }
        for tensor in self.weights.iter().flat_map(WeightEntry::factors) {
            used[*tensor] = self.index.tensors[*tensor].spec.columns as u64;
        }
        let tensors = self.index.tensors.iter().zip(used);
        let unused = tensors.filter(|(tensor, used)| {
            let spec = &tensor.spec;
            *used != (spec.rows * spec.columns) as u64
        });
        let names = unused.map(|(tensor, _)| &tensor.spec.name);
        let names = names.chain(self.index.foreign.iter().map(|foreign| &foreign.name));
        match names.into_iter().find(|name| !self.needless(name)) {
            None => Ok(()),
            Some(name) => Err(Error::unsupported(format!(
                "{name}: the file holds this tensor, but the {} architecture as supported here does not use it",
                self.family.name
            ))),
        }
    }

    /// Whether a model is the same without the tensor called `name`.
    fn needless(&self, name: &str) -> bool {
        let buffer = self.family.needless.iter().any(|end| name.ends_with(end));
        let mut names = self.family.names.iter();
        let head = names.find(|stored| stored.gguf == "output");
        let stem = name.strip_suffix(".weight");
        let head = self.tied && head.is_some_and(|head| stem == Some(head.checkpoint));
        self.index.format == Format::Checkpoint && (buffer || head)
    }
}
