//! The pre-tokenizers of `tokenizer.json`: where text is cut before the model sees it.

use ::tokenizers::{
    SplitDelimiterBehavior,
    pre_tokenizers::{
        PreTokenizerWrapper,
        bert::BertPreTokenizer,
        byte_level::ByteLevel,
        delimiter::CharDelimiterSplit,
        digits::Digits,
        fixed_length::FixedLength,
        metaspace::{Metaspace, PrependScheme},
        punctuation::Punctuation,
        sequence::Sequence,
        split::{Split, SplitPattern},
        unicode_scripts::UnicodeScripts,
        whitespace::{Whitespace, WhitespaceSplit},
    },
};

use super::node::Node;
use crate::error::Result;

/// Builds a pre-tokenizer, if there is one.
pub(super) fn build(node: Node) -> Result<Option<PreTokenizerWrapper>> {
    if node.is_null() {
        Ok(None)
    } else {
        one(&node).map(Some)
    }
}

fn one(node: &Node) -> Result<PreTokenizerWrapper> {
    Ok(match node.kind()? {
        "Sequence" => {
            let parts = node.list("pretokenizers")?;
            Sequence::new(parts.iter().map(one).collect::<Result<_>>()?).into()
        }
        "ByteLevel" => ByteLevel::new(
            node.bool("add_prefix_space")?,
            node.bool_or("trim_offsets", true)?,
            node.bool_or("use_regex", true)?,
        )
        .into(),
        "Metaspace" => Metaspace::new(
            node.char("replacement")?,
            prepend_scheme(node)?,
            node.bool_or("split", true)?,
        )
        .into(),
        "Split" => split(node)?,
        "Digits" => Digits::new(node.bool("individual_digits")?).into(),
        "Punctuation" => Punctuation::new(match node.field("behavior") {
            field if field.is_null() => SplitDelimiterBehavior::Isolated,
            _ => behavior(node)?,
        })
        .into(),
        "Whitespace" => Whitespace.into(),
        "WhitespaceSplit" => WhitespaceSplit.into(),
        "CharDelimiterSplit" => CharDelimiterSplit::new(node.char("delimiter")?).into(),
        "BertPreTokenizer" => BertPreTokenizer.into(),
        "UnicodeScripts" => UnicodeScripts::new().into(),
        "FixedLength" => match node.number("length")? {
            0 => return Err(node.field("length").wrong("a number above 0")),
            length => FixedLength::new(length).into(),
        },
        other => {
            return Err(node.unknown(
                other,
                "Sequence, ByteLevel, Metaspace, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, \
                 CharDelimiterSplit, BertPreTokenizer, UnicodeScripts, FixedLength",
            ));
        }
    })
}

fn split(node: &Node) -> Result<PreTokenizerWrapper> {
    let field = node.field("pattern");
    let pattern = match (field.str("String"), field.str("Regex")) {
        (Ok(text), _) => SplitPattern::String(text.to_owned()),
        (_, Ok(regex)) => SplitPattern::Regex(regex.to_owned()),
        _ => return Err(field.wrong("a String or a Regex")),
    };
    Split::new(pattern, behavior(node)?, node.bool_or("invert", false)?)
        .map(Into::into)
        .map_err(|e| node.failed(e))
}

fn behavior(node: &Node) -> Result<SplitDelimiterBehavior> {
    Ok(match node.str("behavior")? {
        "Removed" => SplitDelimiterBehavior::Removed,
        "Isolated" => SplitDelimiterBehavior::Isolated,
        "MergedWithPrevious" => SplitDelimiterBehavior::MergedWithPrevious,
        "MergedWithNext" => SplitDelimiterBehavior::MergedWithNext,
        "Contiguous" => SplitDelimiterBehavior::Contiguous,
        _ => {
            return Err(node
                .field("behavior")
                .wrong("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous"));
        }
    })
}

/// Where a Metaspace puts its mark; older files say it with `add_prefix_space`.
pub(super) fn prepend_scheme(node: &Node) -> Result<PrependScheme> {
    let scheme = node.field("prepend_scheme");
    let prefix = node.bool_or("add_prefix_space", true)?;
    match scheme.value().as_str() {
        None if scheme.is_null() && prefix => Ok(PrependScheme::Always),
        None if scheme.is_null() => Ok(PrependScheme::Never),
        Some("always") if prefix => Ok(PrependScheme::Always),
        Some("first") if prefix => Ok(PrependScheme::First),
        Some("never") => Ok(PrependScheme::Never),
        _ => Err(scheme.wrong("always, first or never, in accord with add_prefix_space")),
    }
}
