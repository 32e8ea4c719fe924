//! The sizes and constants of a model, whatever its family.

use super::{Keys, Rope};
use crate::{
    error::{Error, Result},
    ops::{Activation, Pairing},
    weights::Format,
};

/// The most layers or experts of a model, so that a lying file makes no long lists.
const MOST_LAYERS: usize = 4096;

/// The most of anything else that a row has, so that a pass's rows of it can be counted in 32 bits.
const MOST: usize = 1 << 22;

/// The most values of a matrix: what a wasm program can count, whatever program this is.
const MOST_VALUES: u64 = u32::MAX as u64;

/// Sizes and constants of a decoder-only transformer. Counts are of values unless said otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The family's name.
    pub architecture: &'static str,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the feed-forward layer.
    pub intermediate: usize,
    /// Query heads.
    pub heads: usize,
    /// Key-value heads; `heads` is a multiple.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Rows of the logits; may exceed the tokenizer's vocabulary.
    pub vocabulary: usize,
    /// Positions the model was trained for.
    pub max_positions: usize,
    /// Norms of the residual stream, queries and keys.
    pub norm: NormConfig,
    /// What the feed-forward layer applies.
    pub activation: Activation,
    /// The ways in which heads are rotated; layers choose by number.
    pub ropes: Vec<Rope>,
    /// What distinguishes each layer of the transformer from others.
    pub layers: Vec<LayerConfig>,
    /// What products of queries and keys are multiplied by.
    pub attention_scale: f32,
    /// What attention scores stay below in magnitude.
    pub attention_cap: Option<f32>,
    /// What embeddings are multiplied by.
    pub embedding_scale: f32,
    /// What linear layers multiply their results by before they add them to the residual stream; not 0. It
    /// is 1 where a norm or a mixture of experts adds.
    pub residual_scale: f32,
    /// What logits are multiplied by.
    pub logit_scale: f32,
    /// What logits stay below in magnitude.
    pub logit_cap: Option<f32>,
    /// Whether attention and the feed-forward layer see the same residual stream, in families that have
    /// models of either kind.
    pub parallel: bool,
    /// Experts, where feed-forward layers are mixtures.
    pub experts: Option<Mixture>,
    /// Positions that a token sees in layers that convolve, its own among them.
    pub taps: usize,
}

/// How values are normalised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormConfig {
    /// Whether the mean is taken away first.
    pub centred: bool,
    /// Added to the mean square.
    pub epsilon: f32,
}

/// One layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerConfig {
    /// Positions that a token sees, its own among them; all if `None`.
    pub window: Option<usize>,
    /// Which of the model's ropes rotates its heads; none if `None`.
    pub rope: Option<usize>,
    /// Whether its feed-forward layer is a mixture of experts; the tensors tell if `None`.
    pub sparse: Option<bool>,
    /// Whether a convolution over the last few positions takes the place of attention.
    pub convolves: bool,
}

/// A mixture of experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mixture {
    /// How many there are.
    pub count: usize,
    /// How many each token goes to.
    pub chosen: usize,
    /// Width of an expert's feed-forward layer.
    pub width: usize,
    /// Whether the weights of the chosen experts add up to 1.
    pub normalise: bool,
}

impl ModelConfig {
    /// The constants that all families have, and the usual values of the others. `pairing`: how heads are
    /// rotated, if they are.
    pub fn read(
        keys: &Keys,
        architecture: &'static str,
        centred: bool,
        pairing: Option<Pairing>,
    ) -> Result<Self> {
        let kv_heads = keys.count("attention.head_count_kv")?;
        Self::with_kv_heads(keys, architecture, centred, pairing, kv_heads)
    }

    /// The same with the number of key-value heads, or as many as there are query heads.
    pub fn with_kv_heads(
        keys: &Keys,
        architecture: &'static str,
        centred: bool,
        pairing: Option<Pairing>,
        kv_heads: Option<usize>,
    ) -> Result<Self> {
        let (hidden, heads) = (
            keys.required_count("embedding_length")?,
            keys.required_count("attention.head_count")?,
        );
        let head_dim = match keys.count("attention.key_length")? {
            Some(head_dim) => head_dim,
            None => hidden.checked_div(heads).unwrap_or(0),
        };
        let name = "attention.value_length";
        if let Some(values) = keys.count(name)?.filter(|&values| values != head_dim) {
            let supported = format!("{head_dim}, the length of keys");
            return Err(keys.unsupported(name, &values.to_string(), &supported));
        }
        let vocabulary = match keys.count("vocab_size")? {
            Some(vocabulary) => vocabulary,
            None => keys
                .metadata()
                .strings("tokenizer.ggml.tokens")?
                .map_or(0, <[String]>::len),
        };
        let max_positions = keys.required_count("context_length")?;
        let ropes = pairing.map(|pairing| Rope::read(keys, head_dim, max_positions, pairing));
        let ropes: Vec<_> = ropes.into_iter().collect::<Result<_>>()?;
        let layers = keys.required_count("block_count")?;
        if layers > MOST_LAYERS {
            let message = format!("{layers} is more than {MOST_LAYERS}");
            return Err(Error::weights(keys.key("block_count"), message));
        }
        let layer = LayerConfig {
            window: None,
            rope: pairing.map(|_| 0),
            sparse: None,
            convolves: false,
        };
        let epsilon = match centred {
            true => "attention.layer_norm_epsilon",
            false => "attention.layer_norm_rms_epsilon",
        };
        Ok(Self {
            architecture,
            hidden,
            intermediate: keys
                .count("feed_forward_length")?
                .unwrap_or(hidden.saturating_mul(4)),
            heads,
            kv_heads: kv_heads.unwrap_or(heads),
            head_dim,
            vocabulary,
            max_positions,
            norm: NormConfig {
                centred,
                epsilon: keys.required_number(epsilon)?,
            },
            activation: activation(keys, "activation")?.unwrap_or(Activation::Silu),
            ropes,
            layers: vec![layer; layers],
            attention_scale: 1.0 / (head_dim as f32).sqrt(),
            attention_cap: None,
            embedding_scale: 1.0,
            residual_scale: 1.0,
            logit_scale: 1.0,
            logit_cap: None,
            parallel: false,
            experts: None,
            taps: 1,
        })
    }

    /// Positions of a sequence, if the caller wants `wanted`: by default the smaller of what the model was
    /// trained for and 4096.
    ///
    /// # Errors
    /// `InvalidOption` if the model has fewer.
    pub fn context_length(&self, wanted: Option<usize>) -> Result<usize> {
        let most = self.max_positions;
        let length = wanted.unwrap_or(most.min(4096));
        if (1..=most).contains(&length) {
            return Ok(length);
        }
        let message = format!("{length} is not between 1 and {most}, the model's own");
        Err(Error::option("contextLength", message))
    }

    /// Gives a window to the layers that `config.json` lists as sliding, or else to those that `slides`
    /// says, if the model has one.
    pub fn windows(&mut self, keys: &Keys, slides: impl Fn(usize) -> bool) -> Result<()> {
        let mut window = keys.count("attention.sliding_window")?;
        if window == Some(0) {
            if keys.format() == Format::Checkpoint {
                let key = keys.key("attention.sliding_window");
                return Err(Error::weights(key, "0 is not allowed"));
            }
            // Converters of GGUF files write so that there is none.
            window = None;
        }
        let name = "layer_types";
        let types = keys.texts(name)?;
        if let Some(types) = types.filter(|types| types.len() != self.layers.len()) {
            let message = format!("{} types for {} layers", types.len(), self.layers.len());
            return Err(Error::weights(keys.key(name), message));
        }
        for (i, layer) in self.layers.iter_mut().enumerate() {
            let sliding = match types.map(|types| &*types[i]) {
                None => slides(i),
                Some("full_attention") => false,
                Some("sliding_attention") => true,
                Some(other) => {
                    let supported = "full_attention, sliding_attention";
                    return Err(keys.unsupported(name, &format!("{other:?}"), supported));
                }
            };
            if types.is_some() && sliding && window.is_none() {
                let message = "it lists sliding_attention, but there is no sliding_window";
                return Err(Error::weights(keys.key(name), message));
            }
            layer.window = window.filter(|_| sliding);
        }
        Ok(())
    }

    /// Reads the experts that the model must have; `normalise`: whether their weights are normalised if
    /// the file does not say.
    pub fn mixture(&mut self, keys: &Keys, normalise: bool) -> Result<()> {
        let width = keys.count("expert_feed_forward_length")?;
        let normalise = keys.flag("expert_weights_norm")?.unwrap_or(normalise);
        self.experts = Some(Mixture {
            count: keys.required_count("expert_count")?,
            chosen: keys.required_count("expert_used_count")?,
            width: width.unwrap_or(self.intermediate),
            normalise,
        });
        Ok(())
    }

    /// Fails, naming a key, if a matrix would have more values than a wasm program can count, or a row of
    /// experts more than one of anything else may have.
    fn check_products(&self, keys: &Keys) -> Result<()> {
        let product = |a: usize, b: usize| (a as u64).saturating_mul(b as u64);
        let mut products = vec![
            ("vocab_size", product(self.vocabulary, self.hidden)),
            (
                "feed_forward_length",
                product(self.intermediate, self.hidden),
            ),
            (
                "attention.head_count",
                product(self.heads * self.head_dim, self.hidden),
            ),
            ("shortconv.l_cache", product(self.taps, self.hidden)),
        ];
        if self.layers.iter().any(|layer| layer.convolves) {
            products.push(("embedding_length", product(3 * self.hidden, self.hidden)));
        }
        // Learned positions are a matrix.
        if self.ropes.is_empty() {
            products.push(("context_length", product(self.max_positions, self.hidden)));
        }
        if let Some(experts) = &self.experts {
            let rows = product(experts.count, experts.width);
            let values = rows.saturating_mul(self.hidden as u64);
            products.push(("expert_feed_forward_length", values));
            // What comes between an expert's matrices lies in one row for all that are chosen.
            let row = product(experts.chosen, experts.width.next_multiple_of(32));
            if row > MOST as u64 {
                products.push(("expert_used_count", u64::MAX));
            }
        }
        match products.iter().find(|(_, values)| *values > MOST_VALUES) {
            None => Ok(()),
            Some((name, _)) => {
                let message = "with the other sizes it makes more values than can be served";
                Err(Error::weights(keys.key(name), message))
            }
        }
    }

    /// Fails, naming the key, if the sizes do not belong together or cannot be served.
    pub(super) fn check(&self, keys: &Keys) -> Result<()> {
        let key = |name: &str| keys.key(name);
        let mut positive = vec![
            ("block_count", self.layers.len()),
            ("embedding_length", self.hidden),
            ("feed_forward_length", self.intermediate),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("attention.key_length", self.head_dim),
            ("vocab_size", self.vocabulary),
            ("context_length", self.max_positions),
            ("shortconv.l_cache", self.taps),
        ];
        if let Some(experts) = &self.experts {
            positive.push(("expert_count", experts.count));
            positive.push(("expert_used_count", experts.chosen));
            positive.push(("expert_feed_forward_length", experts.width));
            if experts.chosen > experts.count {
                let message = format!("{} of {} experts", experts.chosen, experts.count);
                return Err(Error::weights(key("expert_used_count"), message));
            }
        }
        let wide = self.heads.saturating_mul(self.head_dim);
        let sizes = positive
            .iter()
            .copied()
            .filter(|&(name, _)| name != "context_length");
        for (name, value) in sizes.chain([("attention.head_count", wide)]) {
            if value > MOST || (name == "expert_count" && value > MOST_LAYERS) {
                let message = format!("a size of {value} cannot be served");
                return Err(Error::weights(key(name), message));
            }
        }
        self.check_products(keys)?;
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(Error::weights(key(name), "0 is not allowed"));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let message = format!(
                "{} does not divide the {} query heads",
                self.kv_heads, self.heads
            );
            return Err(Error::weights(key("attention.head_count_kv"), message));
        }
        for rope in &self.ropes {
            rope.check(keys, self.head_dim)?;
        }
        let epsilon = match self.norm.centred {
            true => "attention.layer_norm_epsilon",
            false => "attention.layer_norm_rms_epsilon",
        };
        let mut above = vec![
            (epsilon, self.norm.epsilon),
            ("attention.scale", self.attention_scale),
            ("embedding_scale", self.embedding_scale),
            ("residual_scale", self.residual_scale),
            ("logit_scale", self.logit_scale),
        ];
        above.extend(
            self.attention_cap
                .map(|cap| ("attn_logit_softcapping", cap)),
        );
        above.extend(self.logit_cap.map(|cap| ("final_logit_softcapping", cap)));
        match above
            .into_iter()
            .find(|&(_, value)| !(value.is_finite() && value > 0.0))
        {
            None => Ok(()),
            Some((name, value)) => {
                let message = format!("it leads to {value}, which is not finite and above 0");
                Err(Error::weights(key(name), message))
            }
        }
    }
}

/// The activation that the file names under `name`.
pub fn activation(keys: &Keys, name: &str) -> Result<Option<Activation>> {
    match keys.text(name)? {
        None => Ok(None),
        Some("silu" | "swish") => Ok(Some(Activation::Silu)),
        Some("gelu") => Ok(Some(Activation::Gelu)),
        Some("gelu_new" | "gelu_pytorch_tanh" | "gelu_fast") => Ok(Some(Activation::GeluTanh)),
        Some("relu") => Ok(Some(Activation::Relu)),
        Some("relu2") => Ok(Some(Activation::ReluSquared)),
        Some(other) => Err(keys.unsupported(
            name,
            &format!("{other:?}"),
            "silu, swish, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, relu, relu2",
        )),
    }
}
