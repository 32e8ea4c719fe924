//! Tokenizers for tests: those of the golden checkpoints, and small ones made by hand.

use std::{collections::BTreeMap, fs};

use decant::tokenizer::{Decoder, TokenKind, Tokenizer, Vocabulary};
use serde_json::Value;

use super::golden::folder;

/// The tokenizer of a golden checkpoint, from its two files.
pub fn golden(model: &str) -> Tokenizer {
    let folder = folder().join("models").join(model);
    let read = |name| fs::read(folder.join(name)).unwrap();
    Tokenizer::from_json(
        &read("tokenizer.json"),
        Some(&read("tokenizer_config.json")),
    )
    .unwrap()
}

/// The rows of a file of golden data.
pub fn rows(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder().join(name)).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The ids in a field of a row.
pub fn ids(row: &Value, field: &str) -> Vec<u32> {
    let list = row[field].as_array().unwrap();
    list.iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// The character that stands for a byte in byte-level vocabularies, as GPT-2's encoder defines it.
pub fn byte_char(byte: u8) -> char {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if printable(byte) {
        return char::from(byte);
    }
    let rank = (0..byte).filter(|&b| !printable(b)).count() as u32;
    char::from_u32(256 + rank).unwrap()
}

/// A byte-level vocabulary: ids 0 to 255 are the bytes, the rest are `more`.
pub fn byte_vocabulary(pre: &str, more: &[(&str, TokenKind)]) -> Vocabulary {
    let bytes = (0..=255).map(|byte| (byte_char(byte).to_string(), TokenKind::Normal));
    let more = more
        .iter()
        .map(|(token, kind)| ((*token).to_owned(), *kind));
    let (tokens, kinds) = bytes.chain(more).unzip();
    Vocabulary {
        model: "gpt2".into(),
        pre: pre.into(),
        tokens,
        kinds,
        ..Default::default()
    }
}

/// The vocabulary that a GGUF file would have of a golden checkpoint whose tokenizer is of SentencePiece's
/// kind: scores in the order of the merges, kinds by the names of tokens.
pub fn sentencepiece_vocabulary(model: &str) -> Vocabulary {
    let path = folder().join("models").join(model).join("tokenizer.json");
    let file: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let added = file["added_tokens"].as_array().unwrap();
    let special = |name: &str| added.iter().any(|token| token["content"] == name);
    let entries = file["model"]["vocab"].as_object().unwrap().iter();
    let entries = entries.map(|(token, id)| (id.as_u64().unwrap(), token.clone()));
    let added = added.iter().map(|token| {
        let name = token["content"].as_str().unwrap().to_owned();
        (token["id"].as_u64().unwrap(), name)
    });
    let tokens: BTreeMap<u64, String> = entries.chain(added).collect();
    let tokens: Vec<String> = tokens.into_values().collect();
    let merges = file["model"]["merges"].as_array().unwrap().iter();
    let merged: Vec<String> = merges
        .map(|merge| match merge {
            Value::String(both) => both.replacen(' ', "", 1),
            both => [both[0].as_str().unwrap(), both[1].as_str().unwrap()].concat(),
        })
        .collect();
    let score = |token: &String| {
        let rank = merged.iter().position(|merged| merged == token);
        rank.map_or(-1e6, |rank| -(rank as f32))
    };
    let kind = |token: &String| match token.as_str() {
        "<unk>" => TokenKind::Unknown,
        name if special(name) => TokenKind::Control,
        name if name.starts_with("<0x") => TokenKind::Byte,
        _ => TokenKind::Normal,
    };
    Vocabulary {
        model: "llama".into(),
        pre: "default".into(),
        kinds: tokens.iter().map(kind).collect(),
        scores: tokens.iter().map(score).collect(),
        tokens,
        ..Default::default()
    }
}

/// The pieces that a decoder gives for ids, the last being what it held back.
pub fn stream(tokenizer: &Tokenizer, ids: &[u32], skip_special_tokens: bool) -> Vec<String> {
    let mut decoder = Decoder::new(tokenizer, skip_special_tokens);
    let mut pieces: Vec<_> = ids.iter().map(|&id| decoder.push(id).unwrap()).collect();
    pieces.push(decoder.finish().unwrap());
    pieces
}

/// A file of the tokenizer tests' own fixtures.
pub fn fixture(name: &str) -> std::path::PathBuf {
    folder().join("../tokenizer").join(name)
}
