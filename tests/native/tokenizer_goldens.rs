//! Encoding and decoding against Hugging Face's answers for six tokenizers: byte-level BPE of three
//! families, and BPE and Unigram with Metaspace and byte fallback.

use std::collections::HashMap;

use decant::tokenizer::{Decoder, Tokenizer};

use crate::support::tokenizers::{byte_char, golden, ids, rows, stream};

fn tokenizers() -> HashMap<&'static str, Tokenizer> {
    ["llama", "qwen2", "gpt2", "llama-tied", "mistral", "gemma3"]
        .map(|model| (model, golden(model)))
        .into()
}

#[test]
fn encode_gives_the_reference_ids() {
    let tokenizers = tokenizers();
    let rows = rows("encode.jsonl");
    assert_eq!(rows.len(), 168);
    for row in rows {
        let tokenizer = &tokenizers[row["model"].as_str().unwrap()];
        let text = row["text"].as_str().unwrap();
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
    }
}

#[test]
fn decode_gives_the_reference_text_wherever_a_stream_is_cut() {
    let tokenizers = tokenizers();
    let rows = rows("detokenise.jsonl");
    assert_eq!(rows.len(), 258);
    for row in rows {
        let tokenizer = &tokenizers[row["model"].as_str().unwrap()];
        let ids = ids(&row, "ids");
        for (skip, field) in [(false, "text"), (true, "text_without_special_tokens")] {
            let text = row[field].as_str().unwrap();
            assert_eq!(tokenizer.decode(&ids, skip).unwrap(), text, "{row}");
            let pieces = stream(tokenizer, &ids, skip);
            assert_eq!(pieces.concat(), text, "{row}");
            // A text may also end after any id, and a decoder goes on with another text.
            let mut decoder = Decoder::new(tokenizer, skip);
            for end in 0..=ids.len() {
                let mut streamed = String::new();
                for &id in &ids[..end] {
                    streamed += &decoder.push(id).unwrap();
                }
                assert_eq!(streamed, pieces[..end].concat());
                streamed += &decoder.finish().unwrap();
                assert_eq!(streamed, tokenizer.decode(&ids[..end], skip).unwrap());
            }
        }
    }
}

/// What is certain after some ids is what all texts that begin with them have in common. One further id
/// is enough to tell, or the bytes that complete a character, so the decoder must have given out exactly
/// the common beginning of the text that ends here and of those.
#[test]
fn text_comes_as_soon_as_it_is_certain_and_not_before() {
    let tokenizers = tokenizers();
    let mut seen = HashMap::new();
    for row in rows("detokenise.jsonl") {
        let model = row["model"].as_str().unwrap().to_owned();
        let count: &mut usize = seen
            .entry((model.clone(), row["kind"].to_string()))
            .or_default();
        *count += 1;
        if *count > 2 {
            continue;
        }
        let tokenizer = &tokenizers[model.as_str()];
        let mut ids = ids(&row, "ids");
        ids.truncate(12);
        let pieces = stream(tokenizer, &ids, false);
        for end in 0..=ids.len() {
            let given = pieces[..end].concat();
            let mut certain = tokenizer.decode(&ids[..end], false).unwrap();
            for next in continuations(tokenizer) {
                let longer = [&ids[..end], &next].concat();
                let text = tokenizer.decode(&longer, false).unwrap();
                let common = std::iter::zip(certain.chars(), text.chars())
                    .take_while(|(a, b)| a == b)
                    .map(|(c, _)| c.len_utf8())
                    .sum();
                certain.truncate(common);
            }
            assert_eq!(given, certain, "after {end} ids of {row}");
        }
    }
}

/// Every single id, and the bytes that can complete a character of up to four.
fn continuations(tokenizer: &Tokenizer) -> Vec<Vec<u32>> {
    let byte = |byte: u8| {
        let plain = tokenizer.id(&format!("<0x{byte:02X}>"));
        plain
            .or_else(|| tokenizer.id(&byte_char(byte).to_string()))
            .unwrap()
    };
    let mut all: Vec<_> = (0..tokenizer.len() as u32).map(|id| vec![id]).collect();
    for second in [0x80, 0x90, 0xA0] {
        all.push(vec![byte(second), byte(0x80)]);
        all.push(vec![byte(second), byte(0x80), byte(0x80)]);
    }
    all
}
