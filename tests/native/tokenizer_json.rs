//! `tokenizer.json`: every part that the crate knows, and files that are damaged.

use std::fs;

use decant::{error::ErrorKind, tokenizer::Tokenizer};
use serde_json::{Value, json};

use crate::support::tokenizers::{fixture, ids, stream};

/// Prefix spaces by scheme (also after special tokens), digits, punctuation, patterns, sequences of
/// them, normalizers, added tokens with flags, every decoder: as the reference, whatever the class name.
#[test]
fn chains_of_parts_give_the_reference_ids_and_texts() {
    let text = fs::read_to_string(fixture("chains.jsonl")).unwrap();
    let mut cases = 0;
    for line in text.split('\n').filter(|line| !line.is_empty()) {
        let row: Value = serde_json::from_str(line).unwrap();
        let name = &row["name"];
        let tokenizer = Tokenizer::from_json(row["tokenizer"].to_string().as_bytes(), None)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        for case in row["cases"].as_array().unwrap() {
            cases += 1;
            let text = case["text"].as_str().unwrap();
            let expected = ids(case, "ids");
            assert_eq!(
                tokenizer.encode(text, false).unwrap(),
                expected,
                "{name}: {text:?}"
            );
            let special = tokenizer.encode(text, true).unwrap();
            assert_eq!(special, ids(case, "with_special"), "{name}: {text:?}");
            for (skip, field) in [(false, "decoded"), (true, "skipped")] {
                // The reference cannot decode nothing with every decoder, and says null then.
                if let Some(decoded) = case[field].as_str() {
                    assert_eq!(
                        tokenizer.decode(&expected, skip).unwrap(),
                        decoded,
                        "{name}: {text:?}"
                    );
                    assert_eq!(
                        stream(&tokenizer, &expected, skip).concat(),
                        decoded,
                        "{name}: {text:?}"
                    );
                }
            }
        }
    }
    assert!(cases > 700, "{cases}");
}

/// A small sound file.
fn sound() -> Value {
    json!({
        "version": "1.0",
        "added_tokens": [{ "id": 4, "content": "<s>", "special": true, "normalized": false }],
        "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{ "SpecialToken": { "id": "<s>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
            "special_tokens": { "<s>": { "id": "<s>", "ids": [4], "tokens": ["<s>"] } }
        },
        "decoder": { "type": "ByteLevel" },
        "model": { "type": "BPE", "vocab": { "a": 0, "b": 1, "ab": 2, "Ġ": 3 }, "merges": [["a", "b"]] }
    })
}

fn build(file: &Value) -> decant::error::Result<Tokenizer> {
    Tokenizer::from_json(file.to_string().as_bytes(), None)
}

#[test]
fn unknown_types_are_refused_by_name() {
    assert_eq!(
        build(&sound()).unwrap().encode("ab a", true).unwrap(),
        [4, 2, 3, 0]
    );
    for part in ["normalizer", "pre_tokenizer", "post_processor", "decoder"] {
        let mut file = sound();
        file[part] = json!({ "type": "Novel" });
        let error = build(&file).err().unwrap();
        assert_eq!(*error.kind(), ErrorKind::Unsupported);
        assert!(
            error.to_string().contains(part) && error.to_string().contains("\"Novel\""),
            "{error}"
        );
        // Also inside a sequence, with its place.
        let list = match part {
            "normalizer" => "normalizers",
            "pre_tokenizer" => "pretokenizers",
            "post_processor" => "processors",
            _ => "decoders",
        };
        file[part] = json!({ "type": "Sequence", list: [{ "type": "Novel" }] });
        let error = build(&file).err().unwrap();
        assert!(
            error.to_string().contains(&format!("{part}.{list}[0]")),
            "{error}"
        );
    }
    let mut file = sound();
    file["model"]["type"] = "Novel".into();
    assert_eq!(*build(&file).err().unwrap().kind(), ErrorKind::Unsupported);
    file = sound();
    file["version"] = "2.0".into();
    assert_eq!(*build(&file).err().unwrap().kind(), ErrorKind::Unsupported);
}

/// Damaged values at every place: an error, never a panic. The second column is what the message names.
#[test]
fn damaged_files_are_refused() {
    let cases: &[(&str, Value, &str)] = &[
        ("/model/vocab", json!({}), "empty"),
        ("/model/vocab", json!([]), "model.vocab"),
        ("/model/vocab", json!(5), "object of ids"),
        (
            "/model/vocab",
            json!({ "a": 0, "b": 0, "ab": 1 }),
            "used twice",
        ),
        ("/model/vocab", json!({ "a": -1 }), "-1"),
        (
            "/model/vocab",
            json!({ "a": 4_294_967_295_u32, "b": 0, "ab": 1 }),
            "4294967295",
        ),
        ("/model/merges", json!(null), "merges"),
        ("/model/merges", json!(["ab"]), "ab"),
        ("/model/merges", json!(["a b c"]), "a b c"),
        ("/model/merges", json!([["a"]]), "two tokens"),
        ("/model/merges", json!([["a", "b", "c"]]), "two tokens"),
        ("/model/merges", json!([["a", "z"]]), "\"z\""),
        // Longer than any token: the crate's own reader panics here.
        ("/model/merges", json!([["ab", "ab"]]), "\"abab\""),
        ("/model/continuing_subword_prefix", json!("##"), "##"),
        ("/model/dropout", json!(0.1), "dropout"),
        ("/model", json!(null), "model"),
        (
            "/post_processor",
            json!({ "type": "BertProcessing", "cls": ["a", 0], "sep": ["c", 3_000_000] }),
            "adds the id 3000000",
        ),
        ("/added_tokens", json!([{ "id": 1 }]), "content"),
        ("/added_tokens", json!({}), "sequence"),
        (
            "/normalizer",
            json!({ "type": "Replace", "pattern": { "Regex": "(" }, "content": "" }),
            "normalizer",
        ),
        (
            "/normalizer",
            json!({ "type": "Replace", "pattern": { "String": "" }, "content": "" }),
            "pattern",
        ),
        (
            "/normalizer",
            json!({ "type": "Precompiled", "precompiled_charsmap": "AAAA" }),
            "Precompiled",
        ),
        (
            "/pre_tokenizer",
            json!({ "type": "Split", "pattern": { "Regex": "[" }, "behavior": "Isolated", "invert": false }),
            "pre_tokenizer",
        ),
        (
            "/pre_tokenizer",
            json!({ "type": "Split", "pattern": {}, "behavior": "Isolated", "invert": false }),
            "pattern",
        ),
        (
            "/pre_tokenizer",
            json!({ "type": "Split", "pattern": { "String": "a" }, "behavior": "Other" }),
            "behavior",
        ),
        (
            "/pre_tokenizer",
            json!({ "type": "FixedLength", "length": 0 }),
            "length",
        ),
        (
            "/pre_tokenizer",
            json!({ "type": "Metaspace", "replacement": "ab" }),
            "replacement",
        ),
        (
            "/pre_tokenizer",
            json!({ "type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "add_prefix_space": false }),
            "prepend_scheme",
        ),
        (
            "/pre_tokenizer",
            json!({ "type": "ByteLevel" }),
            "add_prefix_space",
        ),
        ("/pre_tokenizer", json!({}), "type"),
        ("/pre_tokenizer", json!([1, 2]), "pre_tokenizer"),
        (
            "/pre_tokenizer",
            json!({ "type": "Sequence", "pretokenizers": 5 }),
            "pretokenizers",
        ),
        (
            "/post_processor/single",
            json!([{ "Sequence": { "id": "B" } }]),
            "single[0]",
        ),
        (
            "/post_processor/single",
            json!([{ "SpecialToken": { "id": "<x>" } }]),
            "<x>",
        ),
        (
            "/post_processor/special_tokens/<s>/ids",
            json!([-4]),
            "ids[0]",
        ),
        (
            "/post_processor",
            json!({ "type": "BertProcessing", "cls": ["a"], "sep": ["b", 1] }),
            "cls",
        ),
        (
            "/decoder",
            json!({ "type": "Strip", "content": "", "start": 1, "stop": 0 }),
            "content",
        ),
        (
            "/decoder",
            json!({ "type": "Strip", "content": " ", "start": -1, "stop": 0 }),
            "start",
        ),
        (
            "/decoder",
            json!({ "type": "Sequence", "decoders": [{ "type": "Fuse" }, { "type": "ByteFallback" }] }),
            "ByteFallback",
        ),
    ];
    for (place, value, names) in cases {
        let mut file = sound();
        match file.pointer_mut(place) {
            Some(target) => *target = value.clone(),
            None => {
                let (parent, field) = place.rsplit_once('/').unwrap();
                file.pointer_mut(parent).unwrap()[field] = value.clone();
            }
        }
        let error = build(&file)
            .err()
            .unwrap_or_else(|| panic!("{place} {value} was accepted"));
        assert!(
            error.to_string().contains(names),
            "{place} {value}: {error}"
        );
        assert!(
            matches!(
                error.kind(),
                ErrorKind::InvalidTokenizer | ErrorKind::Unsupported
            ),
            "{error:?}"
        );
    }
    let text = sound().to_string();
    for end in 0..text.len() {
        assert!(Tokenizer::from_json(&text.as_bytes()[..end], None).is_err());
    }
    for config in [
        "",
        "[]",
        "null",
        "{\"bos_token\": 5}",
        "{\"chat_template\": 5}",
        "{\"chat_template\": [{}]}",
    ] {
        let error = Tokenizer::from_json(text.as_bytes(), Some(config.as_bytes()))
            .err()
            .unwrap();
        assert!(
            error.to_string().contains("tokenizer_config.json"),
            "{error}"
        );
    }
}

/// Small files that would fill the memory of whoever encodes or decodes a word.
#[test]
fn what_grows_without_bound_is_refused() {
    let list = |kind: &str, part: Value, count: usize| {
        let key = match kind {
            "normalizer" => "normalizers",
            "pre_tokenizer" => "pretokenizers",
            _ => "decoders",
        };
        let mut file = sound();
        file["pre_tokenizer"] = Value::Null;
        file[kind] = json!({ "type": "Sequence", key: vec![part; count] });
        build(&file)
    };
    let replace =
        |pattern: Value| json!({ "type": "Replace", "pattern": pattern, "content": "aaaa" });
    let text = replace(json!({ "String": "a" }));
    let regex = replace(json!({ "Regex": "x*" }));
    let bytes = json!({ "type": "ByteLevel", "add_prefix_space": false });
    for (kind, part, most) in [
        ("normalizer", &text, 4),
        ("normalizer", &regex, 3),
        ("normalizer", &bytes, 8),
        ("pre_tokenizer", &bytes, 8),
        ("decoder", &text, 4),
        ("decoder", &regex, 3),
    ] {
        let sound = list(kind, part.clone(), most);
        assert!(sound.is_ok(), "{kind}, {most} of {part}");
        assert!(sound.unwrap().encode("a", false).is_ok());
        let error = list(kind, part.clone(), most + 1).err();
        let error = error.unwrap_or_else(|| panic!("{kind}, {most} and one of {part}"));
        assert_eq!(*error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(&format!("[{most}]")), "{error}");
        assert!(error.to_string().contains("times as long"), "{error}");
    }

    let mut file = sound();
    file["post_processor"]["single"] = vec![json!({ "Sequence": { "id": "A" } }); 65].into();
    let error = build(&file).err().unwrap();
    assert!(error.to_string().contains("single: it has 65"), "{error}");
    file = sound();
    file["post_processor"]["special_tokens"]["<s>"]["ids"] = vec![4; 65].into();
    let error = build(&file).err().unwrap();
    assert!(error.to_string().contains("ids: it has 65"), "{error}");

    for (length, allowed) in [(256, true), (257, false)] {
        let mut file = sound();
        file["added_tokens"][0]["content"] = "s".repeat(length).into();
        file["post_processor"] = Value::Null;
        let error = build(&file).err();
        assert_eq!(error.is_none(), allowed, "{error:?}");
        if let Some(error) = error {
            assert!(error.to_string().contains("257 bytes"), "{error}");
        }
    }
}

#[test]
fn the_config_names_special_tokens_and_says_what_is_added() {
    let build = |config: Value| {
        Tokenizer::from_json(
            sound().to_string().as_bytes(),
            Some(config.to_string().as_bytes()),
        )
        .unwrap()
    };
    let tokenizer = build(json!({
        "bos_token": "<s>", "eos_token": { "content": "ab", "normalized": false }, "pad_token": "<new>",
        "additional_special_tokens": ["<x>"]
    }));
    assert_eq!(tokenizer.bos_token_id(), Some(4));
    assert_eq!(tokenizer.eos_token_ids(), [2]);
    assert_eq!(tokenizer.token(2).as_deref(), Some("ab"));
    assert_eq!(
        tokenizer.encode("<new><x>", false).unwrap(),
        [6, 5],
        "tokens that were missing come last"
    );
    assert_eq!(tokenizer.pad_token_id(), Some(6));
    assert_eq!(
        tokenizer.decode(&[0, 2, 1, 5], true).unwrap(),
        "ab",
        "special ones are skipped"
    );

    let raw = |config: Value| build(config).encode("a", true).unwrap();
    assert_eq!(
        raw(json!({ "bos_token": "<s>" })),
        [4, 0],
        "as tokenizer.json says"
    );
    assert_eq!(
        raw(json!({ "bos_token": "<s>", "add_bos_token": false })),
        [0]
    );
    assert_eq!(
        raw(
            json!({ "bos_token": "<s>", "eos_token": "ab", "add_bos_token": true, "add_eos_token": true })
        ),
        [4, 0, 2]
    );
    let split = build(json!({ "bos_token": "<s>", "split_special_tokens": true }));
    assert_eq!(
        split.encode("<s>ab", false).unwrap(),
        [2],
        "nothing in this vocabulary can spell the rest"
    );
}
