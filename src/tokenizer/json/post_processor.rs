//! The post-processors of `tokenizer.json`: which special tokens stand around a raw prompt.

use super::{
    super::specials::{Around, Piece},
    node::Node,
};
use crate::error::Result;

/// Reads a post-processor; without one, nothing is added.
pub(super) fn build(node: Node) -> Result<Around> {
    if node.is_null() {
        Ok(Around::default())
    } else {
        one(&node)
    }
}

fn one(node: &Node) -> Result<Around> {
    // Files written before the type was have the two tokens of BERT.
    let kind = match node.field("type") {
        field if field.is_null() && !node.field("cls").is_null() => "BertProcessing",
        _ => node.kind()?,
    };
    match kind {
        "ByteLevel" => Ok(Around::default()),
        "TemplateProcessing" => template(node),
        "BertProcessing" | "RobertaProcessing" => Ok(Around::between(
            Some(id_of_pair(node, "cls")?),
            Some(id_of_pair(node, "sep")?),
        )),
        "Sequence" => {
            let mut result = Around::default();
            for part in node.list("processors")? {
                let around = one(&part)?;
                if result == Around::default() {
                    result = around;
                } else if around != Around::default() {
                    return Err(part.unsupported("only one processor of a Sequence may add tokens"));
                }
            }
            Ok(result)
        }
        other => Err(node.unknown(
            other,
            "Sequence, TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing",
        )),
    }
}

/// The most pieces of a template, and ids of a piece. A few of each are all that real files have.
const MOST: usize = 64;

fn template(node: &Node) -> Result<Around> {
    let tokens = node.field("special_tokens");
    let single = few(node, "single")?;
    let pieces = single.into_iter().map(|piece| {
        let special = piece.field("SpecialToken");
        if !special.is_null() {
            let token = tokens.field(special.str("id")?);
            let ids = few(&token, "ids")?;
            return ids.iter().map(id).collect::<Result<_>>().map(Piece::Ids);
        }
        match piece.field("Sequence").str("id")? {
            "A" => Ok(Piece::Text),
            _ => Err(piece.wrong("a SpecialToken or the Sequence A")),
        }
    });
    pieces.collect::<Result<_>>().map(Around::new)
}

/// The elements of the list in a field, which are not many.
fn few<'v>(node: &Node<'v>, name: &str) -> Result<Vec<Node<'v>>> {
    let list = node.list(name)?;
    if list.len() <= MOST {
        return Ok(list);
    }
    let count = list.len();
    let what = format!("it has {count} entries, supported are {MOST}");
    Err(node.field(name).unsupported(what))
}

fn id_of_pair(node: &Node, name: &str) -> Result<u32> {
    match node.list(name)?.as_slice() {
        [_, number] => id(number),
        _ => Err(node.field(name).wrong("a token and its id")),
    }
}

fn id(node: &Node) -> Result<u32> {
    node.value()
        .as_u64()
        .and_then(|n| u32::try_from(n).ok())
        .ok_or_else(|| node.wrong("an id"))
}
