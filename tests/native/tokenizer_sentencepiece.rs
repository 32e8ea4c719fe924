//! GGUF vocabularies of the kind `llama`, made of golden tokenizers: the same ids and texts come out.

use std::collections::BTreeMap;

use decant::{
    error::ErrorKind,
    load::vocabulary,
    tokenizer::{TokenKind, Tokenizer, Vocabulary},
    weights::{Metadata, Value},
};

use crate::support::tokenizers::{golden, ids, rows, sentencepiece_vocabulary, stream};

/// A tokenizer from the vocabulary that a GGUF file of a golden model would have.
fn of(model: &str) -> Tokenizer {
    Tokenizer::from_vocabulary(vocabulary_of(model)).unwrap()
}

fn vocabulary_of(model: &str) -> Vocabulary {
    Vocabulary {
        add_space_prefix: Some(model != "gemma3"),
        ..sentencepiece_vocabulary(model)
    }
}

#[test]
fn encodes_as_the_tokenizer_it_was_made_of() {
    let mut compared = BTreeMap::new();
    for row in rows("encode.jsonl") {
        let model = row["model"].as_str().unwrap();
        if !["llama-tied", "gemma3", "mistral"].contains(&model) {
            continue;
        }
        let text = row["text"].as_str().unwrap();
        // This one's `prepend_scheme` is "first": a space that is there already is enough, and there is none
        // after a special token. GGUF has no word for that.
        if model == "mistral" && (text.starts_with(' ') || text.contains("<|")) {
            continue;
        }
        let tokenizer = of(model);
        assert_eq!(
            tokenizer.encode(text, false).unwrap(),
            ids(&row, "ids"),
            "{row}"
        );
        assert_eq!(
            tokenizer.encode(text, true).unwrap(),
            ids(&row, "ids_with_special_tokens"),
            "{row}"
        );
        *compared.entry(model.to_owned()).or_insert(0) += 1;
    }
    let expected = [("gemma3", 28), ("llama-tied", 28), ("mistral", 24)];
    assert_eq!(compared, expected.map(|(m, n)| (m.to_owned(), n)).into());
}

#[test]
fn decodes_as_the_tokenizer_it_was_made_of() {
    let mut compared = 0;
    for row in rows("detokenise.jsonl") {
        let model = row["model"].as_str().unwrap();
        if !["llama-tied", "gemma3", "mistral"].contains(&model) {
            continue;
        }
        let tokenizer = of(model);
        let ids = ids(&row, "ids");
        for (skip, field) in [(false, "text"), (true, "text_without_special_tokens")] {
            let text = row[field].as_str().unwrap();
            assert_eq!(tokenizer.decode(&ids, skip).unwrap(), text, "{row}");
            assert_eq!(stream(&tokenizer, &ids, skip).concat(), text, "{row}");
        }
        compared += 1;
    }
    assert_eq!(compared, 129);
}

#[test]
fn a_space_begins_each_piece_between_special_tokens() {
    let (from_json, from_gguf) = (golden("llama-tied"), of("llama-tied"));
    for text in [
        "<s>G",
        "<|im_start|>user",
        "<s> G",
        " G",
        "",
        "<s><s>",
        "G <s>",
    ] {
        let expected = from_json.encode(text, false).unwrap();
        assert_eq!(from_gguf.encode(text, false).unwrap(), expected, "{text:?}");
    }
    let [with, without] = [None, Some(false)].map(|add_space_prefix| {
        let vocabulary = Vocabulary {
            add_space_prefix,
            ..sentencepiece_vocabulary("llama-tied")
        };
        Tokenizer::from_vocabulary(vocabulary).unwrap()
    });
    let space = with.id("▁").unwrap();
    assert_eq!(with.encode("G", false).unwrap()[0], space);
    assert_ne!(without.encode("G", false).unwrap()[0], space);
    let spaced = with.encode("G", false).unwrap();
    assert_eq!(with.decode(&spaced, false).unwrap(), "G");
    assert_eq!(without.decode(&spaced, false).unwrap(), " G");
}

/// Tokens with scores, the first three `<unk>`, `<s>` and `</s>`.
fn small(tokens: &[(&str, f32)]) -> Vocabulary {
    let special = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0)];
    let (tokens, scores): (Vec<String>, Vec<f32>) = special
        .iter()
        .chain(tokens)
        .map(|&(token, score)| (token.to_owned(), score))
        .unzip();
    let kind = |id| match id {
        0 => TokenKind::Unknown,
        1 | 2 => TokenKind::Control,
        _ => TokenKind::Normal,
    };
    Vocabulary {
        model: "llama".into(),
        kinds: (0..tokens.len()).map(kind).collect(),
        tokens,
        scores,
        add_space_prefix: Some(false),
        ..Default::default()
    }
}

#[test]
fn the_highest_score_is_joined_first_and_then_the_leftmost() {
    let ids = |ab: f32, bc: f32| {
        let letters = [
            ("a", -9.0),
            ("b", -9.0),
            ("c", -9.0),
            ("ab", ab),
            ("bc", bc),
        ];
        let tokenizer = Tokenizer::from_vocabulary(small(&letters)).unwrap();
        tokenizer.encode("abcabab", false).unwrap()
    };
    assert_eq!(ids(-1.0, -2.0), [6, 5, 6, 6]);
    assert_eq!(ids(-2.0, -1.0), [3, 7, 6, 6]);
    // Without byte tokens, what cannot be spelt is one unknown token.
    let tokenizer = Tokenizer::from_vocabulary(small(&[("a", 0.0)])).unwrap();
    assert_eq!(tokenizer.encode("axya", false).unwrap(), [3, 0, 3]);
}

#[test]
fn bos_and_eos_follow_the_file_or_else_the_trainer() {
    let letters = small(&[("a", 0.0)]);
    let encode = |vocabulary: &Vocabulary| {
        let tokenizer = Tokenizer::from_vocabulary(vocabulary.clone()).unwrap();
        assert_eq!(tokenizer.bos_token_id(), Some(1));
        tokenizer.encode("a", true).unwrap()
    };
    assert_eq!(encode(&letters), [1, 3]);
    for (add_bos, add_eos, expected) in [
        (Some(true), Some(true), vec![1, 3, 2]),
        (Some(false), None, vec![3]),
        (None, Some(true), vec![1, 3, 2]),
        (Some(false), Some(true), vec![3, 2]),
    ] {
        let vocabulary = Vocabulary {
            add_bos,
            add_eos,
            ..letters.clone()
        };
        assert_eq!(encode(&vocabulary), expected, "{add_bos:?} {add_eos:?}");
    }
    // A template that writes BOS is encoded without another.
    let vocabulary = Vocabulary {
        chat_template: Some("{{ bos_token }}{{ messages[0].content }}".into()),
        ..letters
    };
    let tokenizer = Tokenizer::from_vocabulary(vocabulary).unwrap();
    let messages = serde_json::json!([{ "role": "user", "content": "a" }]);
    let prompt = tokenizer.apply_chat_template(&messages, &Default::default());
    assert_eq!(tokenizer.encode(&prompt.unwrap(), false).unwrap(), [1, 3]);
}

/// The special tokens of Phi 3 swallow white space after them; its files do not say so.
#[test]
fn the_special_tokens_of_phi_3_swallow_white_space() {
    let of = |architecture: &str| {
        let names = ["<unk>", "<s>", "</s>", "<|user|>", "a", "▁", "<0x0A>"];
        let text = |text: &str| Value::String(text.into());
        let entries = [
            ("general.architecture", text(architecture)),
            ("tokenizer.ggml.model", text("llama")),
            (
                "tokenizer.ggml.tokens",
                Value::Strings(names.map(str::to_owned).into()),
            ),
            (
                "tokenizer.ggml.scores",
                Value::Floats(vec![0.0; names.len()]),
            ),
            (
                "tokenizer.ggml.token_type",
                Value::Integers(vec![2, 3, 3, 3, 1, 1, 6]),
            ),
            ("tokenizer.ggml.add_space_prefix", Value::Bool(false)),
        ];
        let entries = entries.map(|(key, value)| (key.to_owned(), value));
        let vocabulary = vocabulary(&Metadata(entries.into())).unwrap();
        Tokenizer::from_vocabulary(vocabulary).unwrap()
    };
    let encode = |architecture, text| of(architecture).encode(text, false).unwrap();
    assert_eq!(encode("phi3", "<|user|>\n a"), [3, 4]);
    assert_eq!(encode("llama", "<|user|>\n a"), [3, 6, 5, 4]);
    assert_eq!(encode("phi3", "<s> a"), [1, 5, 4]);
    assert_eq!(encode("phi3", "</s> a"), [2, 4]);
}

/// The ways to cut a token grow with the square of its length.
#[test]
fn a_token_that_is_too_long_is_refused() {
    let with = |length: usize| {
        let letters = "ab".repeat(length / 2);
        Tokenizer::from_vocabulary(small(&[("a", 0.0), ("b", 0.0), (&letters, 0.0)]))
    };
    assert!(with(512).is_ok());
    let error = with(514).err().unwrap();
    assert_eq!(*error.kind(), ErrorKind::InvalidTokenizer, "{error}");
    assert!(
        error.to_string().contains("514 bytes, allowed are 512"),
        "{error}"
    );
}

#[test]
fn scores_that_do_not_fit_are_refused() {
    type Case<'a> = (&'a str, &'a dyn Fn(&mut Vocabulary));
    let cases: &[Case] = &[
        ("scores has 0 entries", &|v| v.scores.clear()),
        ("scores has 5 entries", &|v| v.scores.push(0.0)),
        ("the score of \"a\" is NaN", &|v| v.scores[3] = f32::NAN),
        ("the score of \"<unk>\" is inf", &|v| {
            v.scores[0] = f32::INFINITY
        }),
    ];
    for (expected, change) in cases {
        let mut vocabulary = small(&[("a", 0.0)]);
        change(&mut vocabulary);
        let error = Tokenizer::from_vocabulary(vocabulary).err().unwrap();
        assert_eq!(*error.kind(), ErrorKind::InvalidTokenizer, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}
