//! Streaming text: the failures that users of other runtimes met.

use decant::tokenizer::{Decoder, TokenKind, Tokenizer};

use crate::support::tokenizers::{byte_vocabulary, golden, stream};

/// Ids 0 to 255 are the bytes; 256 is special.
fn byte_level() -> Tokenizer {
    let vocabulary = byte_vocabulary("gpt-2", &[("<|im_end|>", TokenKind::Control)]);
    Tokenizer::from_vocabulary(vocabulary).unwrap()
}

/// The ids of bytes in a tokenizer with byte fallback.
fn fallback(tokenizer: &Tokenizer, bytes: &[u8]) -> Vec<u32> {
    let id = |byte| tokenizer.id(&format!("<0x{byte:02X}>")).unwrap();
    bytes.iter().map(id).collect()
}

fn bytes(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

/// Every division of `len` ids into consecutive runs, as lengths.
fn divisions(len: usize) -> Vec<Vec<usize>> {
    if len == 0 {
        return vec![vec![]];
    }
    let starts = (1..=len).flat_map(|first| {
        divisions(len - first)
            .into_iter()
            .map(move |rest| [vec![first], rest].concat())
    });
    starts.collect()
}

#[test]
fn no_piece_holds_half_a_character() {
    let tokenizer = byte_level();
    for text in ["😀", "a😀b", "👩‍👩‍👧‍👦", "中文字", "é", "नमस्ते", "🏳️‍🌈!"]
    {
        let pieces = stream(&tokenizer, &bytes(text), true);
        assert_eq!(pieces.concat(), text);
        for piece in &pieces {
            assert!(piece.chars().count() <= 1, "{piece:?} came with one byte");
            assert!(!piece.contains('\u{FFFD}'));
        }
        // A character is out with its last byte.
        let mut given = String::new();
        for (i, piece) in pieces[..text.len()].iter().enumerate() {
            given += piece;
            let whole = (0..=i + 1)
                .rev()
                .find(|&end| text.is_char_boundary(end))
                .unwrap();
            assert_eq!(given, text[..whole]);
        }
    }
    let letters = "x".repeat(60);
    let pieces = stream(&tokenizer, &bytes(&letters), true);
    assert!(
        pieces[..60].iter().all(|piece| piece == "x"),
        "letters come as they are made"
    );
}

/// A replacement character is as long as the character that it gives way to, so lengths tell nothing.
#[test]
fn three_byte_characters_replace_the_replacement() {
    for text in ["e中t", "e€t", "eét"] {
        let tokenizer = byte_level();
        let pieces = stream(&tokenizer, &bytes(text), false);
        assert_eq!(pieces.concat(), text);
        let last = text.len() - 2;
        assert_eq!(pieces[last], text[1..=last], "out with its last byte");

        // With byte fallback a later byte can still spoil the whole run: the reference then replaces
        // every byte of it. So the character is certain when the run ends, and no sooner.
        let tokenizer = golden("mistral");
        let middle = &text[1..=last];
        let [e, t] = ["e", "t"].map(|letter| tokenizer.id(letter).unwrap());
        let ids = [vec![e], fallback(&tokenizer, middle.as_bytes()), vec![t]].concat();
        let pieces = stream(&tokenizer, &ids, false);
        assert_eq!(pieces.concat(), text);
        assert_eq!(pieces[ids.len() - 1], format!("{middle}t"));
        let spoilt = [&ids[..ids.len() - 1], &fallback(&tokenizer, b"\xFF")].concat();
        let marks = "\u{FFFD}".repeat(middle.len() + 1);
        assert_eq!(
            tokenizer.decode(&spoilt, false).unwrap(),
            format!("e{marks}")
        );
    }
}

#[test]
fn invalid_runs_and_stripped_spaces_do_not_disturb_the_stream() {
    let tokenizer = byte_level();
    let runs: [&[u8]; 6] = [
        b"\x9F\x98a",
        b"\xF0\x9Fab",
        b"\xC0\xAF-\xED\xA0\x80",
        b"\xE4\xB8",
        b"\xFF\xFE\xFD",
        b"\x80\xE2\x82\xAC",
    ];
    for run in runs {
        let ids: Vec<u32> = run.iter().copied().map(u32::from).collect();
        let pieces = stream(&tokenizer, &ids, false);
        assert_eq!(pieces.concat(), String::from_utf8_lossy(run));
    }
    // The first piece of a Metaspace tokenizer loses its space, the same piece later does not.
    let tokenizer = golden("mistral");
    let the = tokenizer.encode("the", false).unwrap();
    let twice = [the.clone(), the.clone()].concat();
    assert_eq!(stream(&tokenizer, &twice, true).concat(), "the the");
    // Starting in the middle of a character, going on after it.
    let ids = [fallback(&tokenizer, b"\x98\x80"), the].concat();
    assert_eq!(
        stream(&tokenizer, &ids, true).concat(),
        "\u{FFFD}\u{FFFD} the"
    );
}

/// One decoder for every division of some ids into runs: after each run, what was given out is the
/// beginning of the whole, and the whole is what one call of `decode` gives.
#[test]
fn however_ids_are_cut_the_pieces_join_to_the_whole() {
    for model in ["llama", "mistral", "gemma3", "llama-tied"] {
        let tokenizer = golden(model);
        let special = tokenizer.eos_token_ids()[0];
        for text in [" a b", "😀é", "x\n\n", "end."] {
            let mut ids = tokenizer.encode(text, false).unwrap();
            ids.truncate(7);
            ids.extend([special, 100_000]);
            for skip in [false, true] {
                let whole = tokenizer.decode(&ids, skip).unwrap();
                for division in divisions(ids.len()) {
                    let (mut decoder, mut given, mut rest) =
                        (Decoder::new(&tokenizer, skip), String::new(), &ids[..]);
                    for length in division {
                        let (run, later) = rest.split_at(length);
                        rest = later;
                        for &id in run {
                            given += &decoder.push(id).unwrap();
                        }
                        assert!(whole.starts_with(&given));
                    }
                    given += &decoder.finish().unwrap();
                    assert_eq!(given, whole, "{model} {text:?}");
                }
            }
        }
    }
}

#[test]
fn ids_beyond_the_vocabulary_stand_for_nothing() {
    for model in ["llama", "mistral"] {
        let tokenizer = golden(model);
        let len = tokenizer.len() as u32;
        for id in [len, len + 1, 1 << 20, u32::MAX] {
            assert_eq!(tokenizer.decode(&[id], false).unwrap(), "");
            assert_eq!(tokenizer.token(id), None);
            assert!(!tokenizer.is_special(id));
        }
        let ids = tokenizer.encode("so on", false).unwrap();
        let padded: Vec<u32> = ids.iter().flat_map(|&id| [len, id]).collect();
        assert_eq!(tokenizer.decode(&padded, false).unwrap(), "so on");
    }
}

/// Held text must not grow with the number of ids, nor must the work for one of them. Work is counted
/// as allocation would be: by how much a decoder holds back when text keeps coming.
#[test]
fn ten_thousand_ids_pass_through_with_nothing_piling_up() {
    let tokenizer = golden("mistral");
    let emoji = fallback(&tokenizer, "😀".as_bytes());
    let word = tokenizer.encode("sea", false).unwrap();
    let cycle = [emoji, word].concat();
    let mut decoder = Decoder::new(&tokenizer, false);
    let (mut given, mut pushed) = (String::new(), Vec::new());
    for &id in cycle.iter().cycle().take(10_000) {
        given += &decoder.push(id).unwrap();
        pushed.push(id);
        if pushed.len().is_multiple_of(cycle.len()) {
            let rounds = pushed.len() / cycle.len();
            assert_eq!(
                given.len(),
                rounds * "😀 sea".len(),
                "everything is out after round {rounds}"
            );
        }
    }
    given += &decoder.finish().unwrap();
    assert_eq!(given, tokenizer.decode(&pushed, false).unwrap());
}
