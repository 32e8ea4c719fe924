//! Stop strings and the text that is shown. Failures B19, B21, B24 of comparable systems.

use std::{collections::BTreeMap, fs, rc::Rc};

use decant::{
    generation::{Output, StopReason, streamer::Streamer},
    tokenizer::Tokenizer,
};
use pollster::block_on;
use serde_json::{Value, json};

use crate::support::{
    fake::{Setup, only, tokenizer},
    golden,
    random::Random,
};

/// Streams `ids` and stops where the streamer says so: the shown pieces, and the index of the token at
/// which it stopped.
fn shown(
    tokenizer: &Tokenizer,
    stops: &[&str],
    prompt: &[u32],
    ids: &[u32],
) -> (Vec<String>, Option<usize>) {
    let stops: Vec<String> = stops.iter().map(ToString::to_string).collect();
    let mut streamer = Streamer::new(tokenizer, &stops, prompt).unwrap();
    let mut pieces = Vec::new();
    for (at, &id) in ids.iter().enumerate() {
        let shown = streamer.push(id).unwrap();
        pieces.push(shown.text);
        if shown.stopped {
            assert_eq!(
                streamer.finish().unwrap(),
                "",
                "nothing after a stop string"
            );
            return (pieces, Some(at));
        }
    }
    pieces.push(streamer.finish().unwrap());
    (pieces, None)
}

/// The same over a vocabulary of `pieces`, said one after another.
fn said(pieces: &[&str], stops: &[&str]) -> (String, Option<usize>) {
    // Tokens must differ, so a piece that is said again is the same token.
    let mut vocabulary: Vec<&str> = pieces.to_vec();
    vocabulary.sort_unstable();
    vocabulary.dedup();
    let id = |piece: &&str| vocabulary.binary_search(piece).unwrap() as u32;
    let ids: Vec<u32> = pieces.iter().map(id).collect();
    let (shown, at) = shown(&tokenizer(&vocabulary, None), stops, &[], &ids);
    (shown.concat(), at)
}

fn stopped(text: &str, at: usize) -> (String, Option<usize>) {
    (text.into(), Some(at))
}

#[test]
fn a_stop_string_may_begin_and_end_anywhere() {
    let pieces = ["Par", "is", ".\n", "User", ": hi"];
    assert_eq!(said(&pieces, &["Pari"]), stopped("", 1));
    assert_eq!(said(&pieces, &["\nUser"]), stopped("Paris.", 3));
    assert_eq!(said(&pieces, &["s."]), stopped("Pari", 2));
    assert_eq!(said(&pieces, &[": h"]), stopped("Paris.\nUser", 4));
    let apart = ["un", "related", " ambigu", "ously"];
    assert_eq!(said(&apart, &["unambiguously"]), (apart.concat(), None));
}

#[test]
fn short_overlapping_and_missing_stop_strings() {
    assert_eq!(said(&["banana"], &["a"]), stopped("b", 0));
    let near = ["x<|im", "_end|", "<|im_end|", ">y"];
    assert_eq!(said(&near, &["<|im_end|>"]), stopped("x<|im_end|", 3));
    let never = ["<|im_end|", "<|im_", "end|"];
    assert_eq!(said(&never, &["<|im_end|>"]), (never.concat(), None));
    assert_eq!(
        said(&["sleep", "ing"], &["wake"]),
        ("sleeping".into(), None)
    );
    let twenty: Vec<String> = (0..20).map(|i| format!("stop{i:02}")).collect();
    let twenty: Vec<&str> = twenty.iter().map(String::as_str).collect();
    assert_eq!(said(&["go sto", "p1", "7!"], &twenty), stopped("go ", 2));
    assert_eq!(said(&["the end"], &["eNd"]), ("the end".into(), None));
    assert_eq!(
        said(&["ab", "c"], &["bc", "abc"]),
        stopped("", 1),
        "the first to begin cuts"
    );
    assert_eq!(said(&["aab"], &["ab"]), stopped("a", 0));
}

#[test]
fn a_stop_string_may_be_a_character_of_several_tokens() {
    let tokens: [&[u8]; 6] = [b"a", b"\xF0\x9F", b"\x98", b"\x80", b"b", b"\xE4\xB8\xAD"];
    let tokenizer = bytes_tokenizer(&tokens);
    let ids = [0, 1, 2, 3, 4];
    assert_eq!(shown(&tokenizer, &["\u{1F600}"], &[], &ids).0.concat(), "a");
    assert_eq!(
        shown(&tokenizer, &["\u{1F600}b"], &[], &ids).0.concat(),
        "a"
    );
    let (pieces, at) = shown(&tokenizer, &["c"], &[], &ids);
    assert_eq!(
        (pieces, at),
        (
            ["a", "", "", "\u{1F600}", "b", ""]
                .map(str::to_owned)
                .to_vec(),
            None
        )
    );
    // A beginning of the stop string that is a beginning of a character only.
    let (pieces, _) = shown(&tokenizer, &["\u{1F600}"], &[], &[0, 1, 4]);
    assert_eq!(pieces.concat(), "a\u{FFFD}b");
}

fn bytes_tokenizer(tokens: &[&[u8]]) -> Tokenizer {
    use decant::tokenizer::Vocabulary;
    let spell = |token: &&[u8]| {
        token
            .iter()
            .copied()
            .map(crate::support::fake::byte_char)
            .collect()
    };
    Tokenizer::from_vocabulary(Vocabulary {
        model: "gpt2".into(),
        pre: "gpt-2".into(),
        tokens: tokens.iter().map(spell).collect(),
        ..Vocabulary::default()
    })
    .unwrap()
}

#[test]
fn the_prompt_may_hold_the_beginning_but_not_the_end() {
    let tokenizer = tokenizer(&["the ", "end", " is", "n", "e"], None);
    assert_eq!(shown(&tokenizer, &["the end"], &[0], &[1, 2]).1, Some(0));
    assert_eq!(shown(&tokenizer, &["the end"], &[0, 1], &[2]).1, None);
    assert_eq!(shown(&tokenizer, &["end", "d"], &[0, 1], &[2]).1, None);
    let (pieces, at) = shown(&tokenizer, &["the enn"], &[0, 4], &[3, 3]);
    assert_eq!((pieces.concat(), at), (String::new(), Some(1)));
    let (pieces, at) = shown(&tokenizer, &["the enn"], &[0, 4], &[3, 2]);
    assert_eq!(
        (pieces.concat(), at),
        ("n is".into(), None),
        "what was held is shown in the end"
    );
}

#[test]
fn special_tokens_stop_but_are_not_shown() {
    let tokenizer = tokenizer(&["a", "<|end|>", "b", "end"], None);
    let (pieces, at) = shown(&tokenizer, &["<|end|>"], &[], &[0, 2, 1, 2]);
    assert_eq!((pieces.concat(), at), ("ab".into(), Some(2)));
    let (pieces, at) = shown(&tokenizer, &["b<|"], &[], &[0, 2, 1, 2]);
    assert_eq!((pieces.concat(), at), ("a".into(), Some(2)));
    let (pieces, at) = shown(&tokenizer, &["|>b"], &[], &[0, 1, 3, 1, 2]);
    assert_eq!((pieces.concat(), at), ("aend".into(), Some(4)));
    let (pieces, at) = shown(&tokenizer, &["zzz"], &[], &[0, 1, 2]);
    assert_eq!((pieces.concat(), at), ("ab".into(), None));
}

/// Whatever the pieces and stop strings: what is shown is the text before the first match, no part of
/// a match is ever shown, and without a match nothing is missing.
#[test]
fn what_is_shown_is_the_text_before_the_first_match() {
    let vocabulary = ["a", "b", "ab", "ba", "aab", "é", "bé", "éa", "aé"];
    let tokenizer = tokenizer(&vocabulary, None);
    let mut random = Random(5);
    let (mut stopped, mut through) = (0, 0);
    for _ in 0..20_000 {
        let ids: Vec<u32> = (0..random.below(9))
            .map(|_| random.below(9) as u32)
            .collect();
        let count = 1 + random.below(3);
        let stops: Vec<String> = (0..count)
            .map(|_| {
                (0..=random.below(3))
                    .map(|_| vocabulary[random.below(9)])
                    .collect()
            })
            .collect();
        let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
        let (pieces, at) = shown(&tokenizer, &stops, &[], &ids);
        // The definition: after each token, does the text contain a stop string?
        let text = |upto: usize| -> String {
            ids[..upto]
                .iter()
                .map(|&id| vocabulary[id as usize])
                .collect()
        };
        let find = |text: &str| stops.iter().filter_map(|stop| text.find(stop)).min();
        let expected = (1..=ids.len()).find_map(|upto| Some((upto - 1, find(&text(upto))?)));
        let case = format!("{:?} against {stops:?}", text(ids.len()));
        match expected {
            Some((token, cut)) => {
                assert_eq!(at, Some(token), "{case}");
                assert_eq!(pieces.concat(), text(token + 1)[..cut], "{case}");
                stopped += 1;
            }
            None => {
                assert_eq!((pieces.concat(), at), (text(ids.len()), None), "{case}");
                through += 1;
            }
        }
    }
    assert!(stopped > 5000 && through > 2000, "{stopped} {through}");
}

fn golden_tokenizer(model: &str) -> Tokenizer {
    let folder = golden::folder().join("models").join(model);
    let read = |name| fs::read(folder.join(name)).unwrap();
    let config = read("tokenizer_config.json");
    Tokenizer::from_json(&read("tokenizer.json"), Some(&config)).unwrap()
}

/// A decoder of byte tokens holds them back, as a later byte could change what they mean. A stop string
/// in what is held stops at once, but not if it is the prompt's.
#[test]
fn bytes_that_are_held_back_stop_where_they_are_the_answers() {
    let tokenizer = golden_tokenizer("llama-tied");
    let id = |token: &str| tokenizer.id(token).unwrap();
    let (newline, word, bang) = (id("<0x0A>"), id("\u{2581}the"), id("<0x21>"));
    let run = |prompt: &[u32], ids: &[u32]| {
        let (pieces, at) = shown(&tokenizer, &["\n"], prompt, ids);
        (pieces.concat(), at)
    };
    assert_eq!(
        run(&[word], &[word, newline, word]),
        ("the".into(), Some(1))
    );
    assert_eq!(run(&[word], &[bang, newline, word]), ("!".into(), Some(1)));
    assert_eq!(
        run(&[word, newline], &[word, word]),
        ("the the".into(), None)
    );
    assert_eq!(run(&[word, newline], &[newline]), (String::new(), Some(0)));
    assert_eq!(
        run(&[word, newline], &[bang, newline]),
        ("!".into(), Some(1))
    );
}

#[test]
fn stop_strings_equal_hugging_face() {
    let lines = fs::read_to_string(golden::folder().join("stop_strings.jsonl")).unwrap();
    let mut tokenizers = BTreeMap::new();
    let mut passed = 0;
    for line in lines.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let model = case["model"].as_str().unwrap();
        let tokenizer = tokenizers.entry(model.to_owned());
        let tokenizer = tokenizer.or_insert_with(|| golden_tokenizer(model));
        let stops: Vec<String> = serde_json::from_value(case["stop_strings"].clone()).unwrap();
        let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
        let ids: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
        // An answer always has a prompt before it; here a token that can be no part of a match.
        let prompt = [tokenizer.eos_token_ids()[0]];
        let (pieces, at) = shown(tokenizer, &stops, &prompt, &ids);
        let first = case["first"].as_u64().map(|at| at as usize);
        assert_eq!(at, first, "{model} {stops:?} {:?}", case["text"]);
        let text = case["text"].as_str().unwrap();
        assert!(
            text.starts_with(&pieces.concat()) || first.is_none(),
            "{model} {stops:?}"
        );
        if first.is_none() {
            assert_eq!(pieces.concat(), text);
        }
        passed += 1;
    }
    println!("stop_strings.jsonl: {passed} passed");
    assert_eq!(passed, 156);
}

/// The answer of a model that says `pieces` one after another to the prompt "?".
fn answer(pieces: &[&str], config: Value) -> (Output, Vec<String>, usize) {
    let mut vocabulary = vec!["?", "<eos>"];
    vocabulary.extend(pieces);
    let size = vocabulary.len();
    let script = move |ids: &[u32]| match ids.len() + 1 {
        next if next < size => only(next as u32, size),
        _ => only(1, size),
    };
    let (engine, fake) = Setup::new(&vocabulary).engine(script, Rc::default());
    let mut running = engine.generate(&json!([0]).into(), &config.into()).unwrap();
    let mut texts = Vec::new();
    while let Some(event) = block_on(running.next()).unwrap() {
        texts.push(event.text);
    }
    (running.finish().unwrap(), texts, fake.forwards())
}

#[test]
fn the_loop_stops_at_the_token_and_computes_no_further() {
    let pieces = ["Par", "is", ".\n", "User", ": hi"];
    let (output, events, forwards) = answer(&pieces, json!({"stop_strings": ["\nUser", "never"]}));
    assert_eq!((output.texts[0].as_str(), forwards), ("Paris.", 4));
    assert_eq!(output.stop_reasons, [StopReason::StopString]);
    assert_eq!(
        output.sequences,
        [[2, 3, 4, 5]],
        "ids are those that were made"
    );
    assert_eq!(events, ["Par", "is", ".", ""]);
}

#[test]
fn held_text_is_shown_when_the_answer_ends_otherwise() {
    let pieces = ["one", " <", "|e", "nd"];
    let stops = json!("<|end|>");
    let (output, events, _) = answer(&pieces, json!({"stop_strings": stops}));
    assert_eq!(
        (&*output.texts[0], output.stop_reasons[0]),
        ("one <|end", StopReason::Eos)
    );
    assert_eq!(events, ["one", " ", "", "", "<|end"]);
    let short = json!({"stop_strings": stops, "max_new_tokens": 3});
    let (output, events, _) = answer(&pieces, short);
    assert_eq!(
        (&*output.texts[0], events.concat()),
        ("one <|e", "one <|e".into())
    );
    assert_eq!(output.stop_reasons, [StopReason::MaxNewTokens]);
}

#[test]
fn a_natural_end_is_named_before_a_limit_reached_with_it() {
    let reason = |config: Value| answer(&["a", "b"], config).0.stop_reasons[0];
    assert_eq!(reason(json!({"max_new_tokens": 3})), StopReason::Eos);
    assert_eq!(
        reason(json!({"max_new_tokens": 2})),
        StopReason::MaxNewTokens
    );
    assert_eq!(
        reason(json!({"max_new_tokens": 2, "stop_strings": "b"})),
        StopReason::StopString
    );
    // An end token that is a stop string too is an end token.
    assert_eq!(reason(json!({"stop_strings": "<eos>"})), StopReason::Eos);
    let plain = answer(
        &["a", "b"],
        json!({"stop_strings": "<eos>", "eos_token_id": []}),
    )
    .0;
    assert_eq!(
        (&*plain.texts[0], plain.stop_reasons[0]),
        ("ab", StopReason::StopString)
    );
}

#[test]
fn an_end_token_with_a_text_is_not_shown() {
    let (output, events, _) = answer(&["a", "b", "c"], json!({"eos_token_id": 4}));
    assert_eq!((&*output.texts[0], events.concat()), ("ab", "ab".into()));
    assert_eq!(output.sequences, [[2, 3, 4]]);
}
