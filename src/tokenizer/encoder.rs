//! Text → ids through the `tokenizers` crate: the only file that drives its pipeline.

use std::sync::Arc;

use ::tokenizers::{
    AddedToken, NormalizedString, Normalizer, PreTokenizedString, PreTokenizer, TokenizerImpl,
    decoders::fuse::Fuse, models::ModelWrapper, pre_tokenizers::byte_level::ByteLevel,
};

use super::invalid;
use crate::error::Result;

/// The crate's pipeline up to the ids. What comes after (special tokens around the text, decoding) is
/// ours, so the last two types only fill their places.
type Pipeline = TokenizerImpl<ModelWrapper, Normalizers, PreTokenizers, ByteLevel, Fuse>;

/// What happens to a text before it is cut, in order.
///
/// Trait objects, unlike the crate's enum of everything, leave out of the download what nothing builds.
#[derive(Clone, Default)]
pub(super) struct Normalizers(pub Vec<Arc<dyn Normalizer + Send + Sync>>);

impl Normalizer for Normalizers {
    fn normalize(&self, text: &mut NormalizedString) -> ::tokenizers::Result<()> {
        self.0.iter().try_for_each(|step| step.normalize(text))
    }
}

/// How a text is cut into the pieces that the model sees, in order.
#[derive(Clone, Default)]
pub(super) struct PreTokenizers(pub Vec<Arc<dyn PreTokenizer + Send + Sync>>);

impl PreTokenizer for PreTokenizers {
    fn pre_tokenize(&self, text: &mut PreTokenizedString) -> ::tokenizers::Result<()> {
        self.0.iter().try_for_each(|step| step.pre_tokenize(text))
    }
}

/// The most bytes of a token that is recognised whole. The table that searches for few of them takes a kilobyte for
/// each of their bytes.
const MOST: usize = 256;

/// Turns text into ids.
#[derive(Clone)]
pub(super) struct Encoder {
    pipeline: Pipeline,
    len: usize,
}

impl Encoder {
    /// An encoder. `highest` is the model's highest id; `added` are the tokens that are recognised whole,
    /// unless `split_special` makes special ones among them ordinary text.
    ///
    /// # Errors
    /// An added token is very long, or they cannot be searched for.
    pub fn new(
        model: impl Into<ModelWrapper>,
        highest: u32,
        normalizers: Normalizers,
        pre_tokenizers: PreTokenizers,
        added: Vec<AddedToken>,
        split_special: bool,
    ) -> Result<Self> {
        if let Some(long) = added.iter().find(|token| token.content.len() > MOST) {
            let bytes = long.content.len();
            let begin: String = long.content.chars().take(30).collect();
            return Err(invalid(format!(
                "the added token that begins with {begin:?} has {bytes} bytes, allowed are {MOST}"
            )));
        }
        let mut pipeline = Pipeline::new(model.into());
        pipeline.with_pre_tokenizer(Some(pre_tokenizers));
        pipeline
            .with_normalizer(Some(normalizers))
            .and_then(|pipeline| pipeline.add_tokens(added))
            .map_err(|e| invalid(format!("the added tokens cannot be used: {e}")))?;
        pipeline.set_encode_special_tokens(split_special);
        let added = pipeline
            .get_added_vocabulary()
            .get_vocab()
            .values()
            .copied()
            .max();
        let len = added.unwrap_or(0).max(highest) as usize + 1;
        Ok(Self { pipeline, len })
    }

    /// The ids of a text, with nothing added.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self
            .pipeline
            .encode_fast(text, false)
            .map_err(|e| invalid(format!("the text cannot be encoded: {e}")))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// One more than the highest id.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The id of a token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.pipeline.token_to_id(token)
    }

    /// The token of an id, in the form that decoding starts from.
    pub fn token(&self, id: u32) -> Option<String> {
        self.pipeline.id_to_token(id)
    }

    /// Whether a token is special.
    pub fn is_special(&self, token: &str) -> bool {
        self.pipeline.get_added_vocabulary().is_special_token(token)
    }
}
