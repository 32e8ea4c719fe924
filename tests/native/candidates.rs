//! Drafts: whatever is proposed, what is generated is what the model alone would generate.

use std::rc::Rc;

use decant::generation::{Arguments, Engine, Output, Prompt, StopReason};
use serde_json::{Value, json};

use crate::support::{
    fake::{Fake, Setup, only, tape},
    generate::cases,
    golden_engine,
    loops::{PIECES, assisted, output, pages_used, with},
};

fn seen(output: Output) -> (Vec<Vec<u32>>, Vec<String>, Vec<StopReason>) {
    (output.sequences, output.texts, output.stop_reasons)
}

/// Every golden prompt that is decoded greedily, under its own configuration.
#[test]
fn drafts_give_the_ids_of_greedy_decoding_on_every_golden_prompt() {
    let engine = golden_engine::engine("llama");
    let assistant = golden_engine::engine("llama-draft");
    let (mut prompts, mut drafted, mut accepted) = (0, 0, 0);
    for case in cases("generate/llama.jsonl") {
        let config = &case["config"];
        let has = |name: &str| config.get(name).is_some();
        let other = [
            "num_beams",
            "do_sample",
            "use_cache",
            "prompt_lookup_num_tokens",
        ];
        if other.into_iter().any(has) || case.get("negative_prompts").is_some() {
            continue;
        }
        for prompt in case["prompts"].as_array().unwrap() {
            let plain = seen(output(&engine, prompt.clone(), config.clone()));
            for ngram in [1, 3] {
                let lookup =
                    json!({"prompt_lookup_num_tokens": 5, "max_matching_ngram_size": ngram});
                let found = output(&engine, prompt.clone(), with(config, lookup));
                let speculation = found.speculation.unwrap();
                drafted += speculation.drafted;
                accepted += speculation.accepted;
                assert_eq!(seen(found), plain, "{}", case["name"]);
            }
            let ids: Vec<u32> = serde_json::from_value(prompt.clone()).unwrap();
            for schedule in ["constant", "heuristic_transient"] {
                let drafts = json!({
                    "num_assistant_tokens": 4, "num_assistant_tokens_schedule": schedule,
                });
                let config = with(config, drafts).into();
                let found = assisted(&engine, &assistant, &ids, &config);
                let speculation = found.speculation.unwrap();
                drafted += speculation.drafted;
                accepted += speculation.accepted;
                assert!(speculation.accepted <= speculation.drafted);
                assert_eq!(seen(found), plain, "{}", case["name"]);
            }
            prompts += 1;
        }
    }
    println!("{prompts} prompts; {accepted} of {drafted} proposed tokens were right");
    assert!(prompts >= 55 && accepted > 100 && drafted > accepted);
    assert_eq!(pages_used(&engine) + pages_used(&assistant), 0);
}

/// A model that repeats itself: what comes after a token is what came after it before.
fn repeating() -> (Engine, Rc<Fake>) {
    let cycle = [3, 1, 4, 2, 6, 5];
    let next = move |ids: &[u32]| {
        let at = cycle.iter().position(|id| Some(id) == ids.last());
        only(cycle[at.map_or(0, |at| (at + 1) % 6)], 8)
    };
    let mut setup = Setup::new(&PIECES);
    setup.tapes = vec![tape(1, 1), tape(32, 32)];
    setup.engine(next, Rc::default())
}

#[test]
fn a_text_that_repeats_itself_takes_fewer_steps() {
    let (engine, fake) = repeating();
    let prompt = json!([3, 1, 4, 2, 6, 5, 3, 1]);
    let config = json!({"max_new_tokens": 30, "eos_token_id": [], "prompt_lookup_num_tokens": 5});
    let found = output(&engine, prompt.clone(), config);
    let speculation = found.speculation.unwrap();
    assert_eq!(speculation.accepted, speculation.drafted);
    assert_eq!(speculation.acceptance_rate(), Some(1.0));
    assert_eq!(
        fake.forwards(),
        1 + 5,
        "one token after the prompt, then six in a step"
    );
    assert!(
        fake.steps.borrow()[1..]
            .iter()
            .all(|(_, step)| step.outputs.len() == step.tokens.len())
    );
    let plain = output(
        &engine,
        prompt,
        json!({"max_new_tokens": 30, "eos_token_id": []}),
    );
    assert_eq!(found.sequences, plain.sequences);
    assert_eq!(plain.speculation, None);
}

/// A draft may run past the end; nothing after the end is shown or counted.
#[test]
fn drafts_are_cropped_at_the_end() {
    let prompt = json!([3, 1, 4, 2, 6, 5, 3, 1]);
    let ends = [
        (
            json!({"eos_token_id": 6}),
            StopReason::Eos,
            vec![4, 2, 6],
            " d b f",
        ),
        (
            json!({"stop_strings": " b f"}),
            StopReason::StopString,
            vec![4, 2, 6],
            " d",
        ),
        (
            json!({"max_new_tokens": 2}),
            StopReason::MaxNewTokens,
            vec![4, 2],
            " d b",
        ),
        (
            json!({"max_length": 12}),
            StopReason::MaxLength,
            vec![4, 2, 6, 5],
            " d b f e",
        ),
    ];
    for (config, reason, ids, text) in ends {
        let (engine, _) = repeating();
        let (assistant, _) = repeating();
        let by_lookup =
            json!({"prompt_lookup_num_tokens": 6, "max_new_tokens": 20, "eos_token_id": []});
        let mut config = with(&by_lookup, config);
        if config.get("max_length").is_some() {
            config.as_object_mut().unwrap().remove("max_new_tokens");
        }
        let found = output(&engine, prompt.clone(), config.clone());
        let text = if reason == StopReason::Eos {
            " d b"
        } else {
            text
        };
        // The first is made with the prompt; what is drafted beyond the end is made by nobody.
        let made = ids.len() - 1;
        let expected = (vec![ids], vec![text.to_owned()], vec![reason]);
        assert_eq!(found.timings.decode_tokens, made);
        assert_eq!(seen(found), expected);
        config
            .as_object_mut()
            .unwrap()
            .remove("prompt_lookup_num_tokens");
        let prompt: Vec<u32> = serde_json::from_value(prompt.clone()).unwrap();
        let found = assisted(&repeating().0, &assistant, &prompt, &config.into());
        assert_eq!(found.timings.decode_tokens, made);
        assert_eq!(seen(found), expected);
        assert_eq!(pages_used(&engine) + pages_used(&assistant), 0);
    }
}

/// How many tokens each draft had: the rows of the steps that verified it, less one.
fn drafts(fake: &Fake) -> Vec<usize> {
    let steps = fake.steps.borrow();
    steps[1..]
        .iter()
        .map(|(_, step)| step.tokens.len() - 1)
        .collect()
}

#[test]
fn the_length_of_drafts_adapts_as_the_schedule_says() {
    let right = json!({"max_new_tokens": 40, "eos_token_id": [], "num_assistant_tokens": 3});
    let run = |assistant: &Engine, schedule: &str| {
        let (engine, fake) = repeating();
        let schedule = json!({"num_assistant_tokens_schedule": schedule});
        assisted(&engine, assistant, &[3, 1], &with(&right, schedule).into());
        drafts(&fake)
    };
    let (assistant, _) = repeating();
    assert_eq!(run(&assistant, "constant")[..4], [3, 3, 3, 3]);
    assert_eq!(run(&assistant, "heuristic_transient")[..3], [3, 5, 7]);
    assert_eq!(run(&assistant, "heuristic_transient")[..3], [3, 5, 7]);
    let first = run(&assistant, "heuristic");
    assert_eq!(first[..3], [3, 5, 7]);
    assert!(
        run(&assistant, "heuristic")[0] > 7,
        "kept for the next call"
    );
    let (wrong, _) = Setup::new(&PIECES).engine(|_| only(7, 8), Rc::default());
    assert_eq!(run(&wrong, "heuristic_transient")[..4], [3, 2, 1, 1]);
    assert_eq!(run(&wrong, "constant")[..4], [3, 3, 3, 3]);
}

#[test]
fn a_draft_ends_where_the_assistant_is_not_sure() {
    // Sure of every token but those after token 4.
    let unsure = |ids: &[u32]| match ids.last() {
        Some(4) => vec![0.0; 8],
        Some(3) => only(1, 8),
        Some(1) => only(4, 8),
        _ => only(3, 8),
    };
    let run = |threshold: f64| {
        let (engine, fake) = repeating();
        let (assistant, _) = Setup::new(&PIECES).engine(unsure, Rc::default());
        let config = json!({
            "max_new_tokens": 5, "eos_token_id": [], "num_assistant_tokens": 4,
            "assistant_confidence_threshold": threshold,
        });
        assisted(&engine, &assistant, &[6, 5], &config.into());
        drafts(&fake)[0]
    };
    // After token 5 comes 3, which the model says alone; drafted are 1, 4 and the one it is not sure of.
    assert_eq!(
        (run(0.4), run(0.0)),
        (3, 3),
        "the limit leaves room for no more"
    );
    let sure = |ids: &[u32]| {
        if ids.last() == Some(&3) {
            vec![0.0; 8]
        } else {
            only(1, 8)
        }
    };
    let (engine, fake) = repeating();
    let (assistant, _) = Setup::new(&PIECES).engine(sure, Rc::default());
    let config = json!({"max_new_tokens": 9, "eos_token_id": [], "num_assistant_tokens": 4});
    assisted(&engine, &assistant, &[6, 5], &config.into());
    assert_eq!(
        drafts(&fake)[0],
        1,
        "the draft ends with the token it is not sure of"
    );
}

/// The assistant's tokens are others, and so is the length of the same text in them.
#[test]
fn an_assistant_may_have_another_tokenizer() {
    let words = [" red", " green", " blue", "<eos>", " pink"];
    let letters = [
        "<eos>", " ", "r", "e", "d", "g", "n", "b", "l", "u", "p", "i", "k",
    ];
    // Both say the colours in turn.
    let setup = |pieces: &[&str]| {
        let mut setup = Setup::new(pieces);
        setup.facts.context_length = 256;
        setup.pages = 64;
        setup
    };
    let (engine, fake) = setup(&words).engine(
        |ids: &[u32]| match ids.last() {
            Some(0) => only(1, 5),
            Some(1) => only(2, 5),
            _ => only(0, 5),
        },
        Rc::default(),
    );
    let text =
        " red green blue red green blue red green blue red green blue red green blue red green";
    let spell = move |ids: &[u32]| {
        let written: String = ids.iter().map(|&id| letters[id as usize]).collect();
        let next = text
            .strip_prefix(written.as_str())
            .and_then(|rest| rest.chars().next());
        let id = next.and_then(|next| letters.iter().position(|letter| letter.starts_with(next)));
        only(id.unwrap_or(0) as u32, letters.len())
    };
    let (assistant, _) = setup(&letters).engine(spell, Rc::default());
    for (target, own) in [(10, 10), (2, 3), (1, 1)] {
        let config = json!({
            "max_new_tokens": 12, "num_assistant_tokens": 12, "target_lookbehind": target,
            "assistant_lookbehind": own,
        });
        let plain = output(&engine, json!([0]), config.clone());
        let before = fake.forwards();
        let found = assisted(&engine, &assistant, &[0], &config.into());
        let speculation = found.speculation.unwrap();
        assert_eq!(found.sequences, plain.sequences);
        assert!(
            speculation.accepted >= 6,
            "{target}, {own}: {speculation:?}"
        );
        assert!(fake.forwards() - before < 8);
    }
}

#[test]
fn drafts_are_refused_where_they_cannot_be() {
    let (engine, fake) = repeating();
    let (assistant, _) = repeating();
    let refused = |assistant: Option<&Engine>, prompts: usize, config: Value| {
        let arguments = Arguments {
            assistant: assistant.cloned(),
            ..Arguments::default()
        };
        let prompts = vec![Prompt::Ids(vec![1]); prompts];
        let error = engine
            .generate_with(&prompts, &config.into(), &arguments)
            .err()
            .unwrap();
        error.to_string()
    };
    let lookup = |more: Value| with(&json!({"prompt_lookup_num_tokens": 3}), more);
    assert!(refused(None, 2, lookup(json!({}))).contains("only with one prompt"));
    assert!(refused(Some(&assistant), 2, json!({})).starts_with("assistant_model: "));
    let sampling = json!({"do_sample": true, "num_return_sequences": 2});
    assert!(refused(Some(&assistant), 1, sampling).contains("one answer"));
    assert!(refused(Some(&assistant), 1, json!({"num_beams": 2})).contains("one beam"));
    assert!(refused(Some(&assistant), 1, json!({"use_cache": false})).contains("a cache"));
    assert!(refused(None, 1, lookup(json!({"use_cache": false}))).contains("a cache"));
    assert!(refused(Some(&assistant), 1, lookup(json!({}))).contains("one of the two"));
    assert_eq!(fake.forwards(), 0);
}

/// What an assistant has read is kept as what a model has read is.
#[test]
fn an_assistant_remembers_the_beginning_of_the_text() {
    let (engine, _) = repeating();
    let (assistant, other) = repeating();
    let config = json!({"max_new_tokens": 6, "eos_token_id": [], "num_assistant_tokens": 2}).into();
    let prompt = [3, 1, 4, 2, 6, 5, 3, 1, 4, 2];
    let rows = || {
        let before = other.rows();
        assisted(&engine, &assistant, &prompt, &config);
        other.rows() - before
    };
    let (first, second) = (rows(), rows());
    assert!(second + 9 <= first, "{first} rows, then {second}");
    assert_eq!(pages_used(&assistant), 0);
}
