//! GGUF vocabularies of the kind `llama`: the byte-pair encoding of SentencePiece.
//!
//! Such a file has a score for each token and no merges: of all neighbours that make a token together, those
//! that make the one of the highest score are joined first. Merges that say the same are all ways to cut a
//! token in two tokens, by the score of the whole; transformers makes them in the same order
//! (`generate_merges`). A space is written `▁`, and what no token spells is spelt in bytes.

use std::{cmp::Ordering, sync::Arc};

use ::tokenizers::{
    models::bpe::{self, BPE},
    normalizers::{Prepend, Replace},
};

use super::{
    encoder::{Normalizers, PreTokenizers},
    invalid,
    steps::{Steps, Strip, TextStep, TokenStep},
    vocabulary::{Parts, TokenKind, Vocabulary},
};
use crate::error::Result;

const SPACE: &str = "▁";

/// The most bytes of an ordinary token. The ways to cut a token, and the memory that they take, grow with the
/// square of its length; a file that lies about its tokens must cost neither. SentencePiece's trainer stops at
/// 16 characters, which are 64 bytes at most.
const LONGEST: usize = 512;

/// The ids that a file means when it does not say: those of SentencePiece's own trainer.
pub(super) fn with_defaults(mut v: Vocabulary) -> Vocabulary {
    for (id, default) in [(&mut v.unknown, 0), (&mut v.bos, 1), (&mut v.eos, 2)] {
        if id.is_none() && (default as usize) < v.tokens.len() {
            *id = Some(default);
        }
    }
    v
}

/// Builds what is special about this kind.
pub(super) fn parts(v: &Vocabulary, kinds: &[TokenKind], vocab: bpe::Vocab) -> Result<Parts> {
    let merges = merges(v, kinds, &vocab)?;
    let mut model = BPE::builder()
        .vocab_and_merges(vocab, merges)
        .fuse_unk(true)
        .byte_fallback(true);
    if let Some(unknown) = v.unknown.and_then(|id| v.tokens.get(id as usize)) {
        model = model.unk_token(unknown.clone());
    }
    let failed = |e| invalid(format!("tokenizer.ggml.tokens: {e}"));
    let mut normalizers = Normalizers::default();
    let mut steps = Steps {
        tokens: vec![
            TokenStep::Replace(SPACE.into(), " ".into()),
            TokenStep::ByteFallback,
        ],
        ..Steps::default()
    };
    // Each piece of text between special tokens gets a space of its own, as with the first Llama models.
    if v.add_space_prefix.unwrap_or(true) {
        normalizers.0.push(Arc::new(Prepend::new(SPACE.into())));
        steps.text.push(TextStep::Strip(Strip {
            content: ' ',
            start: 1,
            stop: 0,
        }));
    }
    let replace = Replace::new(" ", SPACE).map_err(failed)?;
    normalizers.0.push(Arc::new(replace));
    Ok(Parts {
        model: model.build().map_err(failed)?,
        normalizers,
        pre_tokenizers: PreTokenizers::default(),
        steps,
        add_bos: true,
    })
}

/// A way to make a token.
struct Pair<'t> {
    score: f32,
    left: &'t str,
    right: &'t str,
    ids: [u32; 2],
}

/// Every way to cut an ordinary token in two, the best first.
fn merges(v: &Vocabulary, kinds: &[TokenKind], vocab: &bpe::Vocab) -> Result<bpe::Merges> {
    if v.scores.len() != v.tokens.len() {
        return Err(invalid(format!(
            "tokenizer.ggml.scores has {} entries, tokenizer.ggml.tokens has {}",
            v.scores.len(),
            v.tokens.len()
        )));
    }
    if let Some((token, score)) = std::iter::zip(&v.tokens, &v.scores).find(|(_, s)| !s.is_finite())
    {
        return Err(invalid(format!(
            "tokenizer.ggml.scores: the score of {token:?} is {score}"
        )));
    }
    let ordinary = |id: u32| kinds[id as usize] == TokenKind::Normal;
    let part = |text| vocab.get(text).copied().filter(|&id| ordinary(id));
    let mut pairs = Vec::new();
    for ((token, &score), _) in std::iter::zip(&v.tokens, &v.scores)
        .zip(kinds)
        .filter(|(_, kind)| **kind == TokenKind::Normal)
    {
        if token.len() > LONGEST {
            return Err(invalid(format!(
                "tokenizer.ggml.tokens: a token has {} bytes, allowed are {LONGEST}; it begins with {:?}",
                token.len(),
                token.chars().take(16).collect::<String>()
            )));
        }
        let begun = pairs.len();
        for (at, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(at);
            if let (Some(a), Some(b)) = (part(left), part(right)) {
                let ids = [a, b];
                pairs.push(Pair {
                    score,
                    left,
                    right,
                    ids,
                });
            }
        }
        pairs[begun..].sort_by_key(|pair| pair.ids);
    }
    let chars = |text: &str| text.chars().count();
    pairs.sort_by(|a, b| {
        let scores = b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal);
        let lengths = |pair: &Pair| (chars(pair.left), chars(pair.right));
        scores.then_with(|| lengths(b).cmp(&lengths(a)))
    });
    let owned = |pair: Pair| (pair.left.to_owned(), pair.right.to_owned());
    Ok(pairs.into_iter().map(owned).collect())
}
