//! The normalizers of `tokenizer.json`: what happens to text before it is cut.

use ::tokenizers::normalizers::{
    BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, NormalizerWrapper, Prepend,
    Replace, Sequence, Strip, StripAccents, replace::ReplacePattern,
};

use super::node::Node;
use crate::error::Result;

/// Builds a normalizer, if there is one.
pub(super) fn build(node: Node) -> Result<Option<NormalizerWrapper>> {
    if node.is_null() {
        Ok(None)
    } else {
        one(&node).map(Some)
    }
}

fn one(node: &Node) -> Result<NormalizerWrapper> {
    Ok(match node.kind()? {
        "Sequence" => {
            let parts = node.list("normalizers")?;
            Sequence::new(parts.iter().map(one).collect::<Result<_>>()?).into()
        }
        "NFC" => NFC.into(),
        "NFD" => NFD.into(),
        "NFKC" => NFKC.into(),
        "NFKD" => NFKD.into(),
        "Nmt" => Nmt.into(),
        "Lowercase" => Lowercase.into(),
        "StripAccents" => StripAccents.into(),
        "ByteLevel" => ByteLevel::new().into(),
        "Strip" => Strip::new(node.bool("strip_left")?, node.bool("strip_right")?).into(),
        "Prepend" => Prepend::new(node.str("prepend")?.to_owned()).into(),
        "Replace" => Replace::new(pattern(node)?, node.str("content")?)
            .map_err(|e| node.failed(e))?
            .into(),
        "BertNormalizer" => BertNormalizer::new(
            node.bool("clean_text")?,
            node.bool("handle_chinese_chars")?,
            match node.field("strip_accents") {
                field if field.is_null() => None,
                _ => Some(node.bool("strip_accents")?),
            },
            node.bool("lowercase")?,
        )
        .into(),
        other => {
            return Err(node.unknown(
                other,
                "Sequence, NFC, NFD, NFKC, NFKD, Nmt, Lowercase, StripAccents, ByteLevel, Strip, Prepend, \
                 Replace, BertNormalizer",
            ));
        }
    })
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
