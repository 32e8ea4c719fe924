//! A GGUF vocabulary, and the tokenizer built from it.
//!
//! GGUF files carry the tokens and their kinds. A byte-level BPE has merges besides, and only the *name* of
//! the pre-tokeniser; the names are those of llama.cpp, and what each stands for is in `pre_tokenizers`. A
//! SentencePiece model has scores; what they mean is in `sentencepiece`.

use std::collections::HashSet;

use ::tokenizers::{AddedToken, models::bpe};

use super::{
    TokenizerParts,
    encoder::{Encoder, Normalizers, PreTokenizers},
    invalid, pre_tokenizers, sentencepiece,
    specials::{Around, SpecialTokens},
    steps::Steps,
    template::Templates,
};
use crate::error::{Error, Result};

/// What a GGUF file says about its vocabulary (the keys `tokenizer.*`), before any check.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Vocabulary {
    /// `tokenizer.ggml.model`: the algorithm; `"gpt2"` is byte-level BPE, `"llama"` that of SentencePiece.
    pub model: String,
    /// `tokenizer.ggml.pre`: the name of the pre-tokeniser.
    pub pre: String,
    /// `tokenizer.ggml.tokens`: the text of each id, in the byte-level alphabet where that applies.
    pub tokens: Vec<String>,
    /// `tokenizer.ggml.token_type`: the kind of each id; empty when the file has none (all normal).
    pub kinds: Vec<TokenKind>,
    /// `tokenizer.ggml.merges`: pairs of tokens with one space between, best first.
    pub merges: Vec<String>,
    /// `tokenizer.ggml.scores`: of a SentencePiece model, a score for each id, the best the highest.
    pub scores: Vec<f32>,
    /// `tokenizer.ggml.bos_token_id`.
    pub bos: Option<u32>,
    /// `tokenizer.ggml.eos_token_id`.
    pub eos: Option<u32>,
    /// `tokenizer.ggml.eot_token_id`: the end of a turn, which also ends generation.
    pub eot: Option<u32>,
    /// `tokenizer.ggml.unknown_token_id`.
    pub unknown: Option<u32>,
    /// `tokenizer.ggml.padding_token_id`.
    pub padding: Option<u32>,
    /// `tokenizer.ggml.add_bos_token`; absent means what the pre-tokeniser's family
    /// does, and yes for a SentencePiece model.
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_eos_token`; absent means no.
    pub add_eos: Option<bool>,
    /// `tokenizer.ggml.add_space_prefix`; absent means yes for a SentencePiece model. Byte-level BPE has none.
    pub add_space_prefix: Option<bool>,
    /// Whether the special tokens of a format swallow the white space after them, which no key says.
    pub strip_after_special: bool,
    /// `tokenizer.chat_template`.
    pub chat_template: Option<String>,
    /// `tokenizer.chat_template.NAME`: further templates by name.
    pub named_chat_templates: Vec<(String, String)>,
}

/// What a token of a GGUF vocabulary is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// Ordinary text.
    Normal,
    /// Stands for what the vocabulary cannot express.
    Unknown,
    /// A mark of the format, such as the end of a turn: a special token.
    Control,
    /// Added by the model's author: recognised whole, but printed as text.
    UserDefined,
    /// An id without a use.
    Unused,
    /// One byte, for text outside the vocabulary.
    Byte,
}

impl TokenKind {
    /// The kind that a GGUF file writes as `code` (1 to 6).
    ///
    /// # Errors
    /// Any other code.
    pub fn from_code(code: i64) -> Result<Self> {
        Ok(match code {
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            other => {
                return Err(Error::weights(
                    "tokenizer.ggml.token_type",
                    format!("kind {other} is unknown, expected 1 to 6"),
                ));
            }
        })
    }
}

/// What the kinds of vocabularies differ in.
pub(super) struct Parts {
    pub model: bpe::BPE,
    pub normalizers: Normalizers,
    pub pre_tokenizers: PreTokenizers,
    pub steps: Steps,
    /// Whether a raw prompt begins with BOS when the file does not say.
    pub add_bos: bool,
}

/// The special tokens that never swallow white space, even where the others do.
const NEVER_STRIP: [&str; 3] = ["<unk>", "<s>", "<|endoftext|>"];

/// Checks the vocabulary and builds the parts of a tokenizer from it.
pub(super) fn build(vocabulary: Vocabulary) -> Result<TokenizerParts> {
    let (v, sentencepiece) = match vocabulary.model.as_str() {
        "gpt2" => (vocabulary, false),
        "llama" => (sentencepiece::with_defaults(vocabulary), true),
        other => {
            return Err(Error::unsupported(format!(
                "tokenizer.ggml.model is {other:?}, supported are \"gpt2\" (byte-level BPE) and \"llama\" \
                 (SentencePiece BPE)"
            )));
        }
    };
    let special = special_tokens(&v)?;
    let kinds = kinds(&v)?;
    let vocab = ids_of_tokens(&v.tokens)?;
    let parts = if sentencepiece {
        sentencepiece::parts(&v, &kinds, vocab)?
    } else {
        byte_level(&v, vocab)?
    };

    let added = std::iter::zip(&v.tokens, &kinds)
        .filter_map(|(token, kind)| {
            let special = match kind {
                TokenKind::Control | TokenKind::Unknown => true,
                TokenKind::UserDefined => false,
                TokenKind::Normal | TokenKind::Unused | TokenKind::Byte => return None,
            };
            let strip = v.strip_after_special && !NEVER_STRIP.contains(&token.as_str());
            let added = AddedToken::from(token.as_str(), special).normalized(false);
            Some(added.rstrip(strip))
        })
        .collect();
    let silent = (0..)
        .zip(&kinds)
        .filter(|(_, k)| **k == TokenKind::Unused)
        .map(|(id, _)| id)
        .collect();

    let highest = v.tokens.len() as u32 - 1;
    let encoder = Encoder::new(
        parts.model,
        highest,
        parts.normalizers,
        parts.pre_tokenizers,
        added,
        false,
    )?;

    let around = Around::between(
        special.bos.filter(|_| v.add_bos.unwrap_or(parts.add_bos)),
        v.eos.filter(|_| v.add_eos.unwrap_or(false)),
    );
    Ok(TokenizerParts {
        encoder,
        around,
        steps: parts.steps,
        special,
        templates: Templates::new(v.chat_template, v.named_chat_templates),
        silent,
    })
}

/// What is special about byte-level BPE.
fn byte_level(v: &Vocabulary, vocab: bpe::Vocab) -> Result<Parts> {
    let family = pre_tokenizers::family(&v.pre)?;
    if v.add_space_prefix == Some(true) {
        return Err(Error::unsupported(
            "tokenizer.ggml.add_space_prefix is true, which byte-level BPE does not have here",
        ));
    }
    let merges = merges(&v.merges, &vocab)?;
    let model = bpe::BPE::builder()
        .vocab_and_merges(vocab, merges)
        .ignore_merges(family.ignore_merges)
        .build()
        .map_err(|e| invalid(format!("tokenizer.ggml.merges: {e}")))?;
    Ok(Parts {
        model,
        normalizers: family.normalizers,
        pre_tokenizers: family.pre_tokenizers,
        steps: Steps {
            byte_level: true,
            ..Steps::default()
        },
        add_bos: family.add_bos,
    })
}

/// The kind of every token.
fn kinds(v: &Vocabulary) -> Result<Vec<TokenKind>> {
    if v.kinds.is_empty() {
        return Ok(vec![TokenKind::Normal; v.tokens.len()]);
    }
    if v.kinds.len() != v.tokens.len() {
        return Err(invalid(format!(
            "tokenizer.ggml.token_type has {} entries, tokenizer.ggml.tokens has {}",
            v.kinds.len(),
            v.tokens.len()
        )));
    }
    Ok(v.kinds.clone())
}

/// The vocabulary as a map. Empty tokens can neither be produced nor printed and are left out.
fn ids_of_tokens(tokens: &[String]) -> Result<bpe::Vocab> {
    let mut vocab = bpe::Vocab::default();
    vocab.reserve(tokens.len());
    for (id, token) in (0u32..).zip(tokens) {
        if token.is_empty() {
            continue;
        }
        if let Some(first) = vocab.insert(token.clone(), id) {
            return Err(invalid(format!(
                "tokenizer.ggml.tokens: ids {first} and {id} are both {token:?}"
            )));
        }
    }
    if vocab.is_empty() {
        return Err(invalid("tokenizer.ggml.tokens is empty"));
    }
    Ok(vocab)
}

/// Splits the merges and checks that each makes a token out of two, once.
fn merges(merges: &[String], vocab: &bpe::Vocab) -> Result<bpe::Merges> {
    let mut seen = HashSet::with_capacity(merges.len());
    let mut joined = String::new();
    merges
        .iter()
        .enumerate()
        .map(|(i, merge)| {
            let wrong = |what: String| {
                invalid(format!(
                    "tokenizer.ggml.merges: entry {i}, {merge:?}, {what}"
                ))
            };
            let (left, right) = merge
                .split_once(' ')
                .filter(|(left, right)| {
                    !left.is_empty() && !right.is_empty() && !right.contains(' ')
                })
                .ok_or_else(|| wrong("is not two tokens with one space between".into()))?;
            joined.clear();
            joined.push_str(left);
            joined.push_str(right);
            for token in [left, right, &joined] {
                if !vocab.contains_key(token) {
                    return Err(wrong(format!(
                        "needs the token {token:?}, which is not in the vocabulary"
                    )));
                }
            }
            if !seen.insert(merge) {
                return Err(wrong("is there twice".into()));
            }
            Ok((left.to_owned(), right.to_owned()))
        })
        .collect()
}

/// The named special tokens, with their ids checked.
fn special_tokens(v: &Vocabulary) -> Result<SpecialTokens> {
    let mut names = Vec::new();
    for (key, name, id) in [
        ("bos_token_id", "bos_token", v.bos),
        ("eos_token_id", "eos_token", v.eos),
        ("eot_token_id", "", v.eot),
        ("unknown_token_id", "unk_token", v.unknown),
        ("padding_token_id", "pad_token", v.padding),
    ] {
        let Some(id) = id else { continue };
        let token = v.tokens.get(id as usize).ok_or_else(|| {
            invalid(format!(
                "tokenizer.ggml.{key} is {id}, the vocabulary has {} tokens",
                v.tokens.len()
            ))
        })?;
        if !name.is_empty() {
            names.push((name.to_owned(), token.clone()));
        }
    }
    let eos = v
        .eos
        .into_iter()
        .chain(v.eot.filter(|&eot| Some(eot) != v.eos))
        .collect();
    Ok(SpecialTokens {
        names,
        bos: v.bos,
        eos,
        pad: v.padding,
    })
}
