//! The normalizers of `tokenizer.json`: what happens to text before it is cut.

use std::sync::Arc;

use ::tokenizers::{
    Normalizer,
    normalizers::{
        BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Prepend, Replace, Strip,
        StripAccents, replace::ReplacePattern,
    },
};

use super::{super::encoder::Normalizers, growth::Growth, node::Node};
use crate::error::Result;

/// Builds the normalizers, if there are any.
///
/// `Precompiled`, the tables of SentencePiece models such as T5, is not supported: the crate's reader of
/// them panics on damaged ones, and generative models do without.
pub(super) fn build(node: Node, growth: &mut Growth) -> Result<Normalizers> {
    let mut steps = Normalizers::default();
    if !node.is_null() {
        add(&node, &mut steps, growth)?;
    }
    Ok(steps)
}

fn add(node: &Node, steps: &mut Normalizers, growth: &mut Growth) -> Result<()> {
    let step: Arc<dyn Normalizer + Send + Sync> = match node.kind()? {
        "Sequence" => {
            return node
                .list("normalizers")?
                .iter()
                .try_for_each(|part| add(part, steps, growth));
        }
        "NFC" => Arc::new(NFC),
        "NFD" => Arc::new(NFD),
        "NFKC" => Arc::new(NFKC),
        "NFKD" => Arc::new(NFKD),
        "Nmt" => Arc::new(Nmt),
        "Lowercase" => Arc::new(Lowercase),
        "StripAccents" => Arc::new(StripAccents),
        "ByteLevel" => {
            growth.times(node, 2)?;
            Arc::new(ByteLevel::new())
        }
        "Strip" => Arc::new(Strip::new(
            node.bool("strip_left")?,
            node.bool("strip_right")?,
        )),
        "Prepend" => Arc::new(Prepend::new(node.str("prepend")?.to_owned())),
        "Replace" => {
            growth.replace(node, &pattern(node)?, node.str("content")?)?;
            Arc::new(replace(node)?)
        }
        "BertNormalizer" => {
            let strip_accents = node.field("strip_accents");
            Arc::new(BertNormalizer::new(
                node.bool("clean_text")?,
                node.bool("handle_chinese_chars")?,
                if strip_accents.is_null() {
                    None
                } else {
                    Some(node.bool("strip_accents")?)
                },
                node.bool("lowercase")?,
            ))
        }
        other => {
            return Err(node.unknown(
                other,
                "Sequence, NFC, NFD, NFKC, NFKD, Nmt, Lowercase, StripAccents, ByteLevel, Strip, Prepend, \
                 Replace, BertNormalizer",
            ));
        }
    };
    steps.0.push(step);
    Ok(())
}

/// A `Replace`, which is also a decoder.
pub(super) fn replace(node: &Node) -> Result<Replace> {
    Replace::new(pattern(node)?, node.str("content")?).map_err(|e| node.failed(e))
}

/// The pattern of a `Replace`, which must match something.
pub(super) fn pattern(node: &Node) -> Result<ReplacePattern> {
    let field = node.field("pattern");
    match (field.str("String"), field.str("Regex")) {
        (Ok(text), _) if !text.is_empty() => Ok(ReplacePattern::String(text.to_owned())),
        (_, Ok(regex)) => Ok(ReplacePattern::Regex(regex.to_owned())),
        _ => Err(field.wrong("a String or a Regex")),
    }
}
