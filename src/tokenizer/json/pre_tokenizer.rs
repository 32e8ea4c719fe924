//! The pre-tokenizers of `tokenizer.json`: where text is cut before the model sees it.

use std::sync::Arc;

use ::tokenizers::{
    PreTokenizer, SplitDelimiterBehavior,
    pre_tokenizers::{
        bert::BertPreTokenizer,
        byte_level::ByteLevel,
        delimiter::CharDelimiterSplit,
        digits::Digits,
        fixed_length::FixedLength,
        metaspace::{Metaspace, PrependScheme},
        punctuation::Punctuation,
        split::{Split, SplitPattern},
        unicode_scripts::UnicodeScripts,
        whitespace::{Whitespace, WhitespaceSplit},
    },
};

use super::{super::encoder::PreTokenizers, growth::Growth, node::Node};
use crate::error::Result;

/// Builds the pre-tokenizers, if there are any.
pub(super) fn build(node: Node, growth: &mut Growth) -> Result<PreTokenizers> {
    let mut steps = PreTokenizers::default();
    if !node.is_null() {
        add(&node, &mut steps, growth)?;
    }
    Ok(steps)
}

fn add(node: &Node, steps: &mut PreTokenizers, growth: &mut Growth) -> Result<()> {
    let step: Arc<dyn PreTokenizer + Send + Sync> = match node.kind()? {
        "Sequence" => {
            return node
                .list("pretokenizers")?
                .iter()
                .try_for_each(|part| add(part, steps, growth));
        }
        "ByteLevel" => {
            growth.times(node, 2)?;
            Arc::new(ByteLevel::new(
                node.bool("add_prefix_space")?,
                node.bool_or("trim_offsets", true)?,
                node.bool_or("use_regex", true)?,
            ))
        }
        "Metaspace" => Arc::new(Metaspace::new(
            node.char("replacement")?,
            prepend_scheme(node)?,
            node.bool_or("split", true)?,
        )),
        "Split" => Arc::new(split(node)?),
        "Digits" => Arc::new(Digits::new(node.bool("individual_digits")?)),
        "Punctuation" => Arc::new(Punctuation::new(match node.field("behavior") {
            field if field.is_null() => SplitDelimiterBehavior::Isolated,
            _ => behavior(node)?,
        })),
        "Whitespace" => Arc::new(Whitespace),
        "WhitespaceSplit" => Arc::new(WhitespaceSplit),
        "CharDelimiterSplit" => Arc::new(CharDelimiterSplit::new(node.char("delimiter")?)),
        "BertPreTokenizer" => Arc::new(BertPreTokenizer),
        "UnicodeScripts" => Arc::new(UnicodeScripts::new()),
        "FixedLength" => match node.number("length")? {
            0 => return Err(node.field("length").wrong("a number above 0")),
            length => Arc::new(FixedLength::new(length)),
        },
        other => {
            return Err(node.unknown(
                other,
                "Sequence, ByteLevel, Metaspace, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, \
                 CharDelimiterSplit, BertPreTokenizer, UnicodeScripts, FixedLength",
            ));
        }
    };
    steps.0.push(step);
    Ok(())
}

fn split(node: &Node) -> Result<Split> {
    let field = node.field("pattern");
    let pattern = match (field.str("String"), field.str("Regex")) {
        (Ok(text), _) => SplitPattern::String(text.to_owned()),
        (_, Ok(regex)) => SplitPattern::Regex(regex.to_owned()),
        _ => return Err(field.wrong("a String or a Regex")),
    };
    Split::new(pattern, behavior(node)?, node.bool_or("invert", false)?).map_err(|e| node.failed(e))
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
