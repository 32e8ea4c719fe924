//! Tokenizers for tests: those of the golden checkpoints, and small ones made by hand.

use std::fs;

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
