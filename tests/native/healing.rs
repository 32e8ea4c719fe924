//! Token healing: the last token of a prompt is chosen again.

use std::rc::Rc;

use decant::generation::{Arguments, Engine, Prompt};
use pollster::block_on;
use serde_json::{Value, json};

use crate::support::{
    fake::{Setup, only},
    loops::{events, generation, output, with},
};

const PIECES: [&str; 8] = ["<eos>", "ht", "http", "https", "://", " see", "x", "h"];

/// A prompt that was cut inside a word goes on as if it had not been cut.
#[test]
fn the_last_token_of_a_prompt_is_healed() {
    // After " see" comes "https"; after that "://", and so on; "http" never had a continuation.
    let script = |ids: &[u32]| match ids.last() {
        Some(5) => only(3, 8).iter().map(|score| score / 10.0).collect(),
        Some(3) => only(4, 8),
        Some(4) => only(6, 8),
        _ => only(0, 8),
    };
    for beams in [1, 2] {
        let (engine, _) = Setup::new(&PIECES).engine(script, Rc::default());
        let config = json!({"token_healing": true, "max_new_tokens": 3, "num_beams": beams});
        let mut running = generation(&engine, json!([5, 2]), config).unwrap();
        let text: String = events(&mut running)
            .into_iter()
            .map(|event| event.text)
            .collect();
        let found = running.finish().unwrap();
        assert_eq!(found.sequences[0], [4, 6, 0]);
        assert_eq!((&text[..], &found.texts[0][..]), ("s://x", "s://x"));
        assert_eq!(found.usage.prompt_tokens, 2);
        let plain = output(
            &engine,
            json!([5, 2]),
            json!({"num_beams": beams, "max_new_tokens": 3}),
        );
        assert_eq!(plain.sequences[0], [0]);
        // Nothing begins like "x" but itself, and an end token is not healed.
        for prompt in [json!([5, 6]), json!([5, 0])] {
            let config = json!({"token_healing": true, "max_new_tokens": 3, "num_beams": beams});
            let same = output(&engine, prompt, config);
            assert_eq!((&same.sequences[0][..], &same.texts[0][..]), (&[0][..], ""));
        }
    }
}

/// The token that was there has a bias of its own, so that it changes for a good reason only.
#[test]
fn a_token_is_healed_only_where_another_is_clearly_better() {
    let pieces = ["<eos>", "<bos>", "http", "https", "y", "x"];
    let healed = |gap: f32, prompt: Value| {
        let script = move |ids: &[u32]| match ids.last() {
            Some(5 | 1) => vec![0.0, 0.0, 0.0, gap, -20.0, 0.0],
            Some(3) => only(4, 6),
            _ => only(0, 6),
        };
        let mut setup = Setup::new(&pieces);
        setup.facts.bos_token_id = Some(1);
        let (engine, _) = setup.engine(script, Rc::default());
        output(
            &engine,
            prompt,
            json!({"token_healing": true, "max_new_tokens": 1}),
        )
        .sequences[0]
            == [4]
    };
    assert!(!healed(0.9, json!([5, 2])) && healed(1.1, json!([5, 2])));
    assert!(
        !healed(0.9, json!([2])) && healed(1.1, json!([2])),
        "begun again from <bos>"
    );
}

/// The answer to a prompt under guidance away from a negative prompt, if one is given.
fn guided(engine: &Engine, prompt: &[u32], negative: Option<&[u32]>, config: Value) -> Vec<u32> {
    let arguments = Arguments {
        negative_prompts: negative.map(|ids| vec![Prompt::Ids(ids.to_vec())]),
        ..Arguments::default()
    };
    let prompts = [Prompt::Ids(prompt.to_vec())];
    let running = engine.generate_with(&prompts, &config.into(), &arguments);
    let output = block_on(running.unwrap().output()).unwrap();
    output.sequences[0].clone()
}

/// After a healed prompt guidance leads away from what it would lead away from without healing: from a
/// negative prompt of the caller's as it is, also where it is the token that was taken back, and otherwise
/// from the last token of the prompt, which is another now.
#[test]
fn only_a_negative_prompt_that_nobody_gave_is_healed() {
    // After " see" comes "https"; everything else depends on the whole history.
    let script = |ids: &[u32]| match ids {
        [.., 5] => only(3, 8).iter().map(|score| score / 10.0).collect(),
        _ => {
            let mix = |seed: u32, id: u32| seed.wrapping_mul(0x0100_0193) ^ (id + 1);
            let seed = ids.iter().fold(17, |seed, &id| mix(seed, id));
            (0..8)
                .map(|id| (mix(seed, id).wrapping_mul(0x85eb_ca6b) >> 20) as f32 / 700.0)
                .collect::<Vec<f32>>()
        }
    };
    let (engine, _) = Setup::new(&PIECES).engine(script, Rc::default());
    let config = json!({"guidance_scale": 3.0, "max_new_tokens": 5, "eos_token_id": []});
    let mut elsewhere = false;
    for more in [
        json!({}),
        json!({"num_beams": 2}),
        json!({"use_cache": false}),
    ] {
        let plain = with(&config, more);
        let healing = with(&plain, json!({"token_healing": true}));
        let negatives: [Option<&[u32]>; 5] =
            [Some(&[6]), Some(&[2]), Some(&[4, 7, 1]), Some(&[3]), None];
        let mut answers = Vec::new();
        for negative in negatives {
            let expected = guided(&engine, &[5, 3], negative, plain.clone());
            let found = guided(&engine, &[5, 2], negative, healing.clone());
            assert_eq!(found, expected, "{negative:?} {plain}");
            answers.push(found);
        }
        assert_eq!(answers[3], answers[4], "without one it is the last token");
        elsewhere |= answers[1] != answers[4];
    }
    assert!(
        elsewhere,
        "the token that was taken back leads as the one in its place does"
    );
}

/// Healing takes a token back before it chooses one: it needs no room of its own, but for a prompt of one
/// token, which has to begin with another.
#[test]
fn a_prompt_that_leaves_room_for_one_token_is_healed() {
    let script = |ids: &[u32]| match ids.last() {
        Some(5 | 6) => only(3, 8).iter().map(|score| score / 10.0).collect(),
        Some(3) => only(4, 8),
        _ => only(0, 8),
    };
    let mut setup = Setup::new(&PIECES);
    setup.facts.bos_token_id = Some(6);
    let (engine, _) = setup.engine(script, Rc::default());
    let healed = |prompt: &[u32], limit: Value| {
        let config = with(&json!({"token_healing": true}), limit);
        output(&engine, json!(prompt), config).sequences[0].clone()
    };
    let long = [&[6; 61][..], &[5, 2]].concat();
    assert_eq!(healed(&long, json!({})), [4]);
    assert_eq!(healed(&long[58..], json!({"max_length": 6})), [4]);
    assert_eq!(healed(&[2], json!({"max_length": 3})), [4]);
    assert_eq!(
        healed(&[2], json!({"max_length": 2})),
        [0],
        "no room for both"
    );
}
