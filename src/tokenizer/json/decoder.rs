//! The decoders of `tokenizer.json`: how tokens become text.

use ::tokenizers::{
    normalizers::replace::ReplacePattern, pre_tokenizers::metaspace::PrependScheme,
};

use super::{
    super::steps::{Steps, Strip, TextStep, TokenStep},
    growth::Growth,
    node::Node,
    normalizer::{pattern, replace},
    pre_tokenizer::prepend_scheme,
};
use crate::error::Result;

/// Reads a decoder; without one, tokens are joined with spaces.
pub(super) fn build(node: Node) -> Result<Steps> {
    let mut steps = Steps::default();
    if node.is_null() {
        steps.tokens.push(TokenStep::Spaced);
    } else {
        add(&node, &mut steps, &mut false, &mut Growth::default())?;
    }
    Ok(steps)
}

/// Appends the steps of one decoder. Once `joined`, the tokens are one text.
fn add(node: &Node, steps: &mut Steps, joined: &mut bool, growth: &mut Growth) -> Result<()> {
    let kind = node.kind()?;
    let step = match kind {
        "Sequence" => {
            for part in node.list("decoders")? {
                add(&part, steps, joined, growth)?;
            }
            return Ok(());
        }
        "Fuse" => {
            *joined = true;
            return Ok(());
        }
        "ByteLevel" if !*joined => {
            steps.byte_level = true;
            *joined = true;
            return Ok(());
        }
        "Strip" => {
            let strip = Strip {
                content: node.char("content")?,
                start: node.number("start")?,
                stop: node.number("stop")?,
            };
            if *joined {
                steps.text.push(TextStep::Strip(strip));
                return Ok(());
            }
            TokenStep::Strip(strip)
        }
        "Replace" => {
            let (pattern, content) = (pattern(node)?, node.str("content")?);
            growth.replace(node, &pattern, content)?;
            match pattern {
                ReplacePattern::String(from) if *joined => {
                    steps.text.push(TextStep::Replace(from, content.to_owned()));
                    return Ok(());
                }
                ReplacePattern::String(from) => TokenStep::Replace(from, content.to_owned()),
                ReplacePattern::Regex(_) => TokenStep::ReplaceRegex(Box::new(replace(node)?)),
            }
        }
        "ByteFallback" => TokenStep::ByteFallback,
        "Metaspace" => TokenStep::Metaspace {
            mark: node.char("replacement")?,
            strip_first: prepend_scheme(node)? != PrependScheme::Never,
        },
        "WordPiece" => TokenStep::WordPiece {
            prefix: node.str("prefix")?.to_owned(),
            cleanup: node.bool("cleanup")?,
        },
        "BPEDecoder" => TokenStep::WordEnd(node.str("suffix")?.to_owned()),
        "CTC" => TokenStep::Ctc {
            pad: node.str("pad_token")?.to_owned(),
            delimiter: node.str("word_delimiter_token")?.to_owned(),
            cleanup: node.bool("cleanup")?,
        },
        _ if !matches!(kind, "ByteLevel") => {
            return Err(node.unknown(
                kind,
                "Sequence, Fuse, ByteLevel, Strip, Replace, ByteFallback, Metaspace, WordPiece, BPEDecoder, CTC",
            ));
        }
        _ => return Err(node.unsupported("ByteLevel must be the only decoder that joins tokens")),
    };
    if *joined {
        return Err(node.unsupported(format!("{kind} cannot follow a decoder that joins tokens")));
    }
    if let Some(TokenStep::WordEnd(_)) = steps.tokens.last() {
        return Err(node.unsupported(format!("{kind} cannot follow BPEDecoder")));
    }
    steps.tokens.push(step);
    Ok(())
}
