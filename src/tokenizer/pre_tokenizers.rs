//! The pre-tokenisers that GGUF files name in `tokenizer.ggml.pre`.
//!
//! The names are llama.cpp's (`src/llama-vocab.cpp`); the patterns are those that the model families
//! publish in their `tokenizer.json`, so that ids equal Hugging Face's.

use std::sync::Arc;

use ::tokenizers::{
    PreTokenizer, SplitDelimiterBehavior,
    normalizers::NFC,
    pre_tokenizers::{
        byte_level::ByteLevel,
        digits::Digits,
        split::{Split, SplitPattern},
    },
};

use super::encoder::{Normalizers, PreTokenizers};
use crate::error::{Error, Result};

/// How a family of byte-level BPE tokenizers cuts text before merging.
pub(super) struct Family {
    /// What happens to the text first.
    pub normalizers: Normalizers,
    /// Cuts text into pieces and spells them in the byte-level alphabet.
    pub pre_tokenizers: PreTokenizers,
    /// A piece that is a token is taken whole, whatever the merges say.
    pub ignore_merges: bool,
    /// Whether a raw prompt begins with BOS when the file does not say.
    pub add_bos: bool,
}

/// Every pre-tokeniser there is, by name, with the family it belongs to.
const NAMES: [(&str, Kind); 37] = [
    ("gpt-2", Kind::Gpt2),
    ("phi-2", Kind::Gpt2),
    ("granite-docling", Kind::Gpt2),
    ("exaone4", Kind::Gpt2),
    ("gigachat", Kind::Gpt2),
    ("mellum", Kind::Gpt2),
    ("olmo", Kind::GptNeoX),
    ("mpt", Kind::GptNeoX),
    ("default", Kind::Default),
    ("falcon", Kind::Falcon),
    ("smollm", Kind::Digits),
    ("starcoder", Kind::Digits),
    ("refact", Kind::Digits),
    ("codeshell", Kind::Digits),
    ("exaone", Kind::Digits),
    ("minerva-7b", Kind::Digits),
    ("command-r", Kind::CommandR),
    ("llama-bpe", Kind::Llama3),
    ("llama3", Kind::Llama3),
    ("llama-v3", Kind::Llama3),
    ("falcon3", Kind::Llama3),
    ("falcon-h1", Kind::Llama3),
    ("pixtral", Kind::Llama3),
    ("lfm2", Kind::Llama3),
    ("dbrx", Kind::Cl100k),
    ("smaug-bpe", Kind::Cl100k),
    ("glm4", Kind::Cl100k),
    ("chatglm-bpe", Kind::Cl100k),
    ("qwen2", Kind::Qwen2),
    ("deepseek-r1-qwen", Kind::Qwen2),
    ("megrez", Kind::Qwen2),
    ("stablelm2", Kind::StableLm2),
    ("tekken", Kind::Tekken),
    ("gpt-4o", Kind::Gpt4o),
    ("llama4", Kind::Gpt4o),
    ("deepseek-coder", Kind::DeepSeekCoder),
    ("deepseek-v3", Kind::DeepSeekV3),
];

#[derive(Clone, Copy)]
enum Kind {
    /// The GPT-2 pattern.
    Gpt2,
    /// The same on text in normal form C.
    GptNeoX,
    /// What llama.cpp falls back to: punctuation apart, then GPT-2, then digits in threes.
    Default,
    /// Punctuation together, then GPT-2, then digits in threes.
    Falcon,
    /// Every digit apart, then the GPT-2 pattern.
    Digits,
    /// The same on text in normal form C.
    CommandR,
    /// The Llama 3 pattern, tokens taken whole, BOS.
    Llama3,
    /// The same pattern without the rest.
    Cl100k,
    /// The same pattern with single digits, on text in normal form C.
    Qwen2,
    /// The same pattern with single digits.
    StableLm2,
    /// Words end where lower case turns to upper; single digits, tokens taken whole, BOS.
    Tekken,
    /// The same with contractions kept at their words and digits in threes.
    Gpt4o,
    /// Line ends, words, punctuation, Chinese and digits apart, one after another.
    DeepSeekCoder,
    /// Digits in threes, Chinese and Japanese apart, then words with their marks.
    DeepSeekV3,
}

/// The Llama 3 pattern; digits go in groups of up to three.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The Qwen 2 pattern; digits go alone.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The pattern of Mistral's tokenizers since Nemo.
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The pattern of GPT-4o, which Phi-4-mini and Llama 4 took over.
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The last of the patterns of DeepSeek V3.
const DEEPSEEK_V3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;

/// The family that a file's `tokenizer.ggml.pre` names.
///
/// # Errors
/// The name is not known: with the wrong pattern the ids would be wrong without anyone noticing.
pub(super) fn family(name: &str) -> Result<Family> {
    let Some((_, kind)) = NAMES.iter().find(|(known, _)| *known == name) else {
        let known: Vec<_> = NAMES.iter().map(|(known, _)| *known).collect();
        return Err(Error::unsupported(format!(
            "tokenizer.ggml.pre is {name:?}, supported are {}",
            known.join(", ")
        )));
    };
    let normal_form_c = || Normalizers(vec![Arc::new(NFC)]);
    let plain = |steps: Vec<Step>| Family {
        normalizers: Normalizers::default(),
        pre_tokenizers: PreTokenizers(steps),
        ignore_merges: false,
        add_bos: false,
    };
    Ok(match kind {
        Kind::Gpt2 => plain(vec![byte_level(true)]),
        Kind::GptNeoX => Family {
            normalizers: normal_form_c(),
            ..plain(vec![byte_level(true)])
        },
        Kind::Falcon => plain(vec![
            split(r"[\p{P}\$\+<=>\^~\|`]+")?,
            split(GPT2)?,
            split("[0-9][0-9][0-9]")?,
            byte_level(false),
        ]),
        Kind::Default => plain(vec![
            split(r"[\p{P}\$\+<=>\^~\|]+")?,
            split(GPT2)?,
            split(r"\p{N}+")?,
            split("[0-9][0-9][0-9]")?,
            byte_level(false),
        ]),
        Kind::Digits => plain(vec![digits(), byte_level(true)]),
        Kind::CommandR => Family {
            normalizers: normal_form_c(),
            ..plain(vec![digits(), byte_level(true)])
        },
        Kind::Cl100k => plain(vec![split(LLAMA3)?, byte_level(false)]),
        Kind::Llama3 => Family {
            ignore_merges: true,
            add_bos: true,
            ..plain(vec![split(LLAMA3)?, byte_level(false)])
        },
        Kind::Qwen2 => Family {
            normalizers: normal_form_c(),
            ..plain(vec![split(QWEN2)?, byte_level(false)])
        },
        Kind::StableLm2 => plain(vec![split(QWEN2)?, byte_level(false)]),
        Kind::Tekken => Family {
            ignore_merges: true,
            add_bos: true,
            ..plain(vec![split(TEKKEN)?, byte_level(false)])
        },
        Kind::Gpt4o => plain(vec![split(GPT4O)?, byte_level(false)]),
        Kind::DeepSeekCoder => plain(vec![
            split(r"[\r\n]")?,
            split(r"\s?\p{L}+")?,
            split(r"\s?\p{P}+")?,
            split("[\u{4e00}-\u{9fa5}\u{800}-\u{4e00}\u{ac00}-\u{d7ff}]+")?,
            digits(),
            byte_level(false),
        ]),
        Kind::DeepSeekV3 => plain(vec![
            split(r"\p{N}{1,3}")?,
            split("[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+")?,
            split(DEEPSEEK_V3)?,
            byte_level(false),
        ]),
    })
}

/// The GPT-2 pattern, for use between other patterns.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

type Step = Arc<dyn PreTokenizer + Send + Sync>;

fn digits() -> Step {
    Arc::new(Digits::new(true))
}

fn byte_level(gpt2_pattern: bool) -> Step {
    Arc::new(ByteLevel::new(false, true, gpt2_pattern))
}

fn split(pattern: &str) -> Result<Step> {
    let regex = SplitPattern::Regex(pattern.into());
    match Split::new(regex, SplitDelimiterBehavior::Isolated, false) {
        Ok(split) => Ok(Arc::new(split)),
        Err(e) => Err(Error::internal(format!(
            "the pattern {pattern:?} does not compile: {e}"
        ))),
    }
}
