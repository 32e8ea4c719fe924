//! GGUF vocabularies: the real one against the reference, each pre-tokeniser, and vocabularies that lie.

use std::{fs::File, io::Read};

use decant::{
    error::ErrorKind,
    load::vocabulary,
    tokenizer::{TokenKind, Tokenizer, Vocabulary},
    weights::gguf::Header,
};
use serde_json::Value;

use crate::support::{
    corpus::{Samples, fnv},
    model::real_model,
    tokenizers::{byte_char, byte_vocabulary, fixture, golden, ids},
};

/// SmolLM2's tokenizer, from the header of its file.
fn smollm2() -> Option<Tokenizer> {
    let mut file = File::open(real_model()?).unwrap();
    let mut bytes = vec![0; 2 << 20];
    file.read_exact(&mut bytes).unwrap();
    let (index, _) = Header::new(None).push(&bytes).unwrap().unwrap();
    Some(Tokenizer::from_vocabulary(vocabulary(&index.metadata).unwrap()).unwrap())
}

fn read(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(fixture(name)).unwrap()).unwrap()
}

fn text_and_ids(pair: &Value) -> (&str, Vec<u32>) {
    let ids = pair[1].as_array().unwrap();
    (
        pair[0].as_str().unwrap(),
        ids.iter().map(|id| id.as_u64().unwrap() as u32).collect(),
    )
}

#[test]
fn smollm2_encodes_a_corpus_as_the_reference() {
    let Some(tokenizer) = smollm2() else { return };
    let reference = read("smollm2.json");
    for pair in reference["texts"].as_array().unwrap() {
        let (text, ids) = text_and_ids(pair);
        assert_eq!(tokenizer.encode(text, false).unwrap(), ids, "{text:?}");
        assert_eq!(
            tokenizer.encode(text, true).unwrap(),
            ids,
            "its file says that no BOS is added"
        );
        assert_eq!(tokenizer.decode(&ids, false).unwrap(), text);
    }
    // The vocabulary has no tokens for some control characters, and the reference drops what it cannot
    // spell.
    let missing: Vec<u8> = (0..=255)
        .filter(|&b| tokenizer.id(&byte_char(b).to_string()).is_none())
        .collect();
    assert!(
        missing.contains(&0x13) && !missing.iter().any(u8::is_ascii_graphic),
        "{missing:?}"
    );
    let samples = Samples::read();
    let mut bytes = 0;
    for (number, hash) in reference["documents"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
    {
        let text = samples.document(number as u64);
        bytes += text.len();
        let ids = tokenizer.encode(&text, false).unwrap();
        let found = fnv(ids.iter().flat_map(|id| id.to_le_bytes()));
        assert_eq!(found, *hash, "document {number}");
        let spelt: Vec<u8> = text.bytes().filter(|b| !missing.contains(b)).collect();
        let decoded = tokenizer.decode(&ids, false).unwrap();
        assert_eq!(
            decoded,
            String::from_utf8_lossy(&spelt),
            "document {number}"
        );
    }
    assert_eq!(bytes, reference["corpus_bytes"]);
    assert!(bytes >= 2_000_000);
}

#[test]
fn every_id_of_smollm2_decodes_as_the_reference() {
    let Some(tokenizer) = smollm2() else { return };
    assert_eq!(tokenizer.len(), 49_152);
    assert_eq!(tokenizer.bos_token_id(), Some(1));
    assert_eq!(tokenizer.eos_token_ids(), [2]);
    let special = (0..49_152).filter(|&id| tokenizer.is_special(id)).count();
    assert_eq!(special, 17);
    let reference = read("smollm2.json");
    let texts: Vec<_> = (0..49_152)
        .map(|id| tokenizer.decode(&[id], false).unwrap())
        .collect();
    let hashes = reference["single_ids"].as_array().unwrap();
    assert_eq!(hashes.len(), 48);
    for (block, hash) in std::iter::zip(texts.chunks(1024), hashes) {
        let bytes = block.iter().flat_map(|text| text.bytes().chain([0]));
        assert_eq!(fnv(bytes), *hash);
    }
    for (id, text) in (0u32..).zip(&texts) {
        let token = tokenizer.token(id).unwrap();
        assert_eq!(tokenizer.id(&token), Some(id));
        let skipped = tokenizer.decode(&[id], true).unwrap();
        assert_eq!(
            skipped.as_str(),
            if tokenizer.is_special(id) {
                ""
            } else {
                text.as_str()
            }
        );
    }
}

#[test]
fn each_pre_tokeniser_cuts_as_its_family() {
    let reference = read("families.json");
    let list = |name: &str| {
        let list = reference[name].as_array().unwrap();
        list.iter()
            .map(|text| text.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for (pre, expected) in reference["ids"].as_object().unwrap() {
        let tokenizer = Tokenizer::from_vocabulary(Vocabulary {
            model: "gpt2".into(),
            pre: pre.clone(),
            tokens: list("tokens"),
            merges: list("merges"),
            ..Default::default()
        })
        .unwrap();
        for (text, expected) in std::iter::zip(list("texts"), expected.as_array().unwrap()) {
            let row = serde_json::json!({ "ids": expected });
            assert_eq!(
                tokenizer.encode(&text, false).unwrap(),
                ids(&row, "ids"),
                "{pre}: {text:?}"
            );
        }
    }
}

#[test]
fn unknown_names_are_refused_by_name() {
    for (model, pre, found) in [
        ("gpt2", "superbpe", "\"superbpe\""),
        ("gpt2", "", "\"\""),
        ("t5", "default", "\"t5\""),
        ("bert", "default", "\"bert\""),
    ] {
        let mut vocabulary = byte_vocabulary(pre, &[]);
        vocabulary.model = model.into();
        let error = Tokenizer::from_vocabulary(vocabulary).err().unwrap();
        assert_eq!(*error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(found), "{error}");
        assert!(error.to_string().contains("supported"), "{error}");
    }
}

#[test]
fn contradictory_vocabularies_are_refused() {
    let change = |f: &dyn Fn(&mut Vocabulary)| {
        let mut vocabulary = byte_vocabulary(
            "gpt-2",
            &[("ab", TokenKind::Normal), ("<s>", TokenKind::Control)],
        );
        vocabulary.merges = vec!["a b".into()];
        f(&mut vocabulary);
        Tokenizer::from_vocabulary(vocabulary)
    };
    assert!(change(&|_| ()).is_ok());
    type Case<'a> = (&'a str, &'a dyn Fn(&mut Vocabulary));
    let cases: &[Case] = &[
        ("is empty", &|v| {
            v.tokens.clear();
            v.kinds.clear();
            v.merges.clear();
        }),
        ("is empty", &|v| {
            v.tokens = vec![String::new(); 3];
            v.kinds.clear();
            v.merges.clear();
        }),
        ("ids 98 and 256", &|v| v.tokens[256] = "b".into()),
        ("has 3 entries", &|v| v.kinds.truncate(3)),
        ("has 300 entries", &|v| {
            v.kinds.resize(300, TokenKind::Normal)
        }),
        ("entry 0", &|v| v.merges[0] = "ab".into()),
        ("entry 0", &|v| v.merges[0] = "a  b".into()),
        ("entry 0", &|v| v.merges[0] = " b".into()),
        ("entry 0", &|v| v.merges[0] = "a ".into()),
        ("entry 0", &|v| v.merges[0] = "a b c".into()),
        ("entry 0", &|v| v.merges[0] = String::new()),
        ("needs the token \"xyz\"", &|v| v.merges[0] = "xyz b".into()),
        // Longer than any token: the crate's own builder panics here.
        ("needs the token \"<s><s>\"", &|v| {
            v.merges[0] = "<s> <s>".into()
        }),
        ("is there twice", &|v| v.merges.push("a b".into())),
        ("bos_token_id is 258", &|v| v.bos = Some(258)),
        ("eos_token_id is 4294967295", &|v| v.eos = Some(u32::MAX)),
        ("eot_token_id is 999", &|v| v.eot = Some(999)),
        ("padding_token_id is 258", &|v| v.padding = Some(258)),
        ("unknown_token_id is 258", &|v| v.unknown = Some(258)),
    ];
    for (expected, f) in cases {
        let error = change(f)
            .err()
            .unwrap_or_else(|| panic!("accepted, expected {expected:?}"));
        assert_eq!(*error.kind(), ErrorKind::InvalidTokenizer, "{error}");
        assert!(
            error.to_string().contains(expected),
            "{error}, expected {expected:?}"
        );
    }
    assert!(change(&|v| v.add_space_prefix = Some(true)).is_err());
    assert!(TokenKind::from_code(0).is_err() && TokenKind::from_code(7).is_err());
}

#[test]
fn kinds_of_tokens_decide_what_is_recognised_and_printed() {
    let tokenizer = Tokenizer::from_vocabulary(byte_vocabulary(
        "gpt-2",
        &[
            ("<ctl>", TokenKind::Control),
            ("<usr>", TokenKind::UserDefined),
            ("<nrm>", TokenKind::Normal),
            ("<pad0>", TokenKind::Unused),
            ("", TokenKind::Unused),
        ],
    ))
    .unwrap();
    assert_eq!(tokenizer.len(), 261);
    assert_eq!(tokenizer.encode("<ctl><usr>", false).unwrap(), [256, 257]);
    assert_eq!(
        tokenizer.encode("<nrm>", false).unwrap().len(),
        5,
        "ordinary tokens need merges"
    );
    let all: Vec<u32> = (256..270).collect();
    assert_eq!(tokenizer.decode(&all, false).unwrap(), "<ctl><usr><nrm>");
    assert_eq!(tokenizer.decode(&all, true).unwrap(), "<usr><nrm>");
    assert_eq!(tokenizer.token(259).as_deref(), Some("<pad0>"));
    assert_eq!(tokenizer.token(300), None);
}

/// A raw prompt gets one BOS if the file (or else its family) says so, a chat prompt exactly what the
/// template writes.
#[test]
fn there_is_never_a_second_bos() {
    for (pre, add_bos, expected) in [
        ("gpt-2", None, false),
        ("gpt-2", Some(true), true),
        ("llama-bpe", None, true),
        ("llama-bpe", Some(false), false),
    ] {
        for writes_bos in [false, true] {
            let template = if writes_bos {
                "{{ bos_token }}{{ messages[0].content }}"
            } else {
                "{{ messages[0].content }}"
            };
            let tokenizer = Tokenizer::from_vocabulary(Vocabulary {
                bos: Some(256),
                eos: Some(257),
                add_bos,
                chat_template: Some(template.into()),
                ..byte_vocabulary(
                    pre,
                    &[("<s>", TokenKind::Control), ("</s>", TokenKind::Control)],
                )
            })
            .unwrap();
            let count = |ids: &[u32]| ids.iter().filter(|&&id| id == 256).count();
            let raw = tokenizer.encode("a", true).unwrap();
            assert_eq!(count(&raw), usize::from(expected), "{pre} {add_bos:?}");
            assert_eq!(tokenizer.encode("a", false).unwrap().len(), 1);
            let messages = serde_json::json!([{ "role": "user", "content": "a" }]);
            let prompt = tokenizer
                .apply_chat_template(&messages, &Default::default())
                .unwrap();
            let chat = tokenizer.encode(&prompt, false).unwrap();
            assert_eq!(count(&chat), usize::from(writes_bos), "{pre} {add_bos:?}");
        }
    }
    let llama = golden("llama");
    let bos = llama.bos_token_id().unwrap();
    assert_eq!(llama.encode("", true).unwrap(), [bos]);
    assert!(llama.encode("", false).unwrap().is_empty());
}
