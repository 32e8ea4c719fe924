//! The models of `tokenizer.json`: BPE, Unigram, WordPiece, WordLevel.

use std::fmt;

use ::tokenizers::models::{
    ModelWrapper,
    bpe::{BPE, Merges, Vocab},
    unigram::Unigram,
    wordlevel::WordLevel,
    wordpiece::WordPiece,
};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};

use super::super::invalid;
use crate::error::{Error, Result};

/// The largest id that is taken for sound; no vocabulary comes near it.
const MAX_ID: u32 = 1 << 24;

/// The `model` of `tokenizer.json`.
#[derive(Deserialize)]
#[serde(expecting = "a model")]
pub(super) struct ModelFile {
    r#type: Option<String>,
    vocab: VocabFile,
    merges: Option<Vec<Merge>>,
    unk_token: Option<String>,
    unk_id: Option<usize>,
    dropout: Option<f32>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    fuse_unk: Option<bool>,
    byte_fallback: Option<bool>,
    ignore_merges: Option<bool>,
    max_input_chars_per_word: Option<usize>,
}

/// Tokens with their ids, or (Unigram) with their scores in the order of the ids.
enum VocabFile {
    Ids(Vec<(String, u32)>),
    Scores(Vec<(String, f64)>),
}

/// Two tokens, written as a list or as one text with a space between.
struct Merge(String, String);

/// Checks a model and builds it; also gives its highest id.
pub(super) fn build(file: ModelFile) -> Result<(ModelWrapper, u32)> {
    let kind = file.r#type.as_deref().unwrap_or(match &file.vocab {
        // Files written before the type was: BPE alone has merges, and so on.
        VocabFile::Scores(_) => "Unigram",
        VocabFile::Ids(_) if file.merges.is_some() => "BPE",
        VocabFile::Ids(_) if file.continuing_subword_prefix.is_some() => "WordPiece",
        VocabFile::Ids(_) => "WordLevel",
    });
    match (kind, &file.vocab) {
        ("Unigram", VocabFile::Scores(_)) => unigram(file),
        ("BPE", VocabFile::Ids(_)) => bpe(file),
        ("WordPiece" | "WordLevel", VocabFile::Ids(_)) => words(file),
        ("Unigram" | "BPE" | "WordPiece" | "WordLevel", _) => Err(invalid(format!(
            "tokenizer.json: model.vocab has the wrong form for a {kind} model"
        ))),
        _ => Err(Error::unsupported(format!(
            "tokenizer.json: model: type {kind:?} is not supported, supported are BPE, Unigram, WordPiece, \
             WordLevel"
        ))),
    }
}

fn bpe(file: ModelFile) -> Result<(ModelWrapper, u32)> {
    if file.dropout.is_some_and(|p| p != 0.0) {
        return Err(Error::unsupported(
            "tokenizer.json: model.dropout makes encoding random, supported is only none",
        ));
    }
    let merges = file
        .merges
        .ok_or_else(|| invalid("tokenizer.json: model.merges is missing"))?;
    let (vocab, highest) = ids(file.vocab)?;
    let prefix = file.continuing_subword_prefix.unwrap_or_default();
    let merges = check_merges(merges, &vocab, &prefix)?;
    let mut builder = BPE::builder()
        .vocab_and_merges(vocab, merges)
        .fuse_unk(file.fuse_unk.unwrap_or(false))
        .byte_fallback(file.byte_fallback.unwrap_or(false))
        .ignore_merges(file.ignore_merges.unwrap_or(false));
    // To the crate an empty prefix or suffix is the same as none.
    if !prefix.is_empty() {
        builder = builder.continuing_subword_prefix(prefix);
    }
    if let Some(suffix) = file.end_of_word_suffix.filter(|s| !s.is_empty()) {
        builder = builder.end_of_word_suffix(suffix);
    }
    if let Some(unknown) = file.unk_token {
        builder = builder.unk_token(unknown);
    }
    let model = builder
        .build()
        .map_err(|e| invalid(format!("tokenizer.json: model: {e}")))?;
    Ok((model.into(), highest))
}

fn check_merges(merges: Vec<Merge>, vocab: &Vocab, prefix: &str) -> Result<Merges> {
    let mut joined = String::new();
    merges
        .into_iter()
        .enumerate()
        .map(|(i, Merge(left, right))| {
            let wrong = |what: String| {
                invalid(format!(
                    "tokenizer.json: model.merges[{i}], {left:?} and {right:?}, {what}"
                ))
            };
            let rest = right
                .strip_prefix(prefix)
                .ok_or_else(|| wrong(format!("the second does not begin with {prefix:?}")))?;
            joined.clear();
            joined.push_str(&left);
            joined.push_str(rest);
            for token in [&left, &right, &joined] {
                if !vocab.contains_key(token) {
                    return Err(wrong(format!(
                        "needs {token:?}, which is not in the vocabulary"
                    )));
                }
            }
            Ok((left, right))
        })
        .collect()
}

fn unigram(file: ModelFile) -> Result<(ModelWrapper, u32)> {
    let VocabFile::Scores(vocab) = file.vocab else {
        return Err(Error::internal("a Unigram model without scores"));
    };
    let highest = check_highest(vocab.len().checked_sub(1).map(|n| n as u64))?;
    if let Some((token, score)) = vocab.iter().find(|(_, score)| !score.is_finite()) {
        return Err(invalid(format!(
            "tokenizer.json: model.vocab: the score of {token:?} is {score}"
        )));
    }
    let model = Unigram::from(vocab, file.unk_id, file.byte_fallback.unwrap_or(false))
        .map_err(|e| invalid(format!("tokenizer.json: model: {e}")))?;
    Ok((model.into(), highest))
}

fn words(file: ModelFile) -> Result<(ModelWrapper, u32)> {
    let word_piece = match &file.r#type {
        Some(kind) => kind == "WordPiece",
        None => file.continuing_subword_prefix.is_some(),
    };
    let (vocab, highest) = ids(file.vocab)?;
    let wrong = |e: ::tokenizers::Error| invalid(format!("tokenizer.json: model: {e}"));
    let model = if word_piece {
        let mut builder = WordPiece::builder().vocab(vocab);
        if let Some(unknown) = file.unk_token {
            builder = builder.unk_token(unknown);
        }
        if let Some(prefix) = file.continuing_subword_prefix {
            builder = builder.continuing_subword_prefix(prefix);
        }
        if let Some(max) = file.max_input_chars_per_word {
            builder = builder.max_input_chars_per_word(max);
        }
        builder.build().map_err(wrong)?.into()
    } else {
        let mut builder = WordLevel::builder().vocab(vocab);
        if let Some(unknown) = file.unk_token {
            builder = builder.unk_token(unknown);
        }
        builder.build().map_err(wrong)?.into()
    };
    Ok((model, highest))
}

/// The vocabulary as a map, with every id used once, and the highest id.
fn ids(vocab: VocabFile) -> Result<(Vocab, u32)> {
    let VocabFile::Ids(entries) = vocab else {
        return Err(Error::internal("a vocabulary without ids"));
    };
    let highest = check_highest(entries.iter().map(|&(_, id)| id.into()).max())?;
    let mut used = vec![false; highest as usize + 1];
    for (token, id) in &entries {
        if std::mem::replace(&mut used[*id as usize], true) {
            return Err(invalid(format!(
                "tokenizer.json: model.vocab: id {id} of {token:?} is used twice"
            )));
        }
    }
    let count = entries.len();
    let vocab: Vocab = entries.into_iter().collect();
    if vocab.len() != count {
        return Err(invalid(
            "tokenizer.json: model.vocab has the same token twice",
        ));
    }
    Ok((vocab, highest))
}

fn check_highest(highest: Option<u64>) -> Result<u32> {
    let highest = highest.ok_or_else(|| invalid("tokenizer.json: model.vocab is empty"))?;
    u32::try_from(highest)
        .ok()
        .filter(|&id| id <= MAX_ID)
        .ok_or_else(|| {
            invalid(format!(
                "tokenizer.json: model.vocab: id {highest} is above {MAX_ID}"
            ))
        })
}

impl<'de> Deserialize<'de> for VocabFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = VocabFile;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of ids or a list of tokens and scores")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<VocabFile, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(VocabFile::Ids(entries))
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> std::result::Result<VocabFile, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = seq.next_element()? {
                    entries.push(entry);
                }
                Ok(VocabFile::Scores(entries))
            }
        }
        deserializer.deserialize_any(V)
    }
}

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Merge;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("two tokens, in a list or with one space between")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Merge, E> {
                match text.split_once(' ') {
                    Some((left, right)) if !right.contains(' ') => {
                        Ok(Merge(left.into(), right.into()))
                    }
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> std::result::Result<Merge, A::Error> {
                let missing = |n| <A::Error as serde::de::Error>::invalid_length(n, &"two tokens");
                let left = seq.next_element()?.ok_or_else(|| missing(0))?;
                let right = seq.next_element()?.ok_or_else(|| missing(1))?;
                if seq.next_element::<serde::de::IgnoredAny>()?.is_some() {
                    return Err(missing(3));
                }
                Ok(Merge(left, right))
            }
        }
        deserializer.deserialize_any(V)
    }
}
