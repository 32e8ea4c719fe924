//! Functions of the caller's that judge all sequences of a prompt together, however they fall into steps.

use std::rc::Rc;

use decant::{error::Result, generation::Output};
use serde_json::{Value, json};

use crate::{
    callbacks::{Mine, answer},
    support::{
        fake::Setup,
        loops::{PIECES, with},
    },
};

/// The answers of an engine that takes `sequences` rows in a step, under a function that after some tokens
/// allows only one, and after others everything else.
fn answers(sequences: usize, config: &Value) -> Result<Output> {
    let script = |ids: &[u32]| {
        let mix = |seed: u32, id: u32| seed.wrapping_mul(0x0100_0193) ^ (id + 1);
        let seed = ids.iter().fold(17, |seed, &id| mix(seed, id));
        let score = |id: u32| (mix(seed, id).wrapping_mul(0x85eb_ca6b) >> 20) as f32 / 900.0;
        (0..8).map(score).collect()
    };
    let mut setup = Setup::new(&PIECES);
    setup.pages = 64;
    setup.sequences = sequences;
    let (engine, _) = setup.engine(script, Rc::default());
    let mine = Rc::new(Mine::allowing(Box::new(|_, ids| match ids.last() {
        Some(1..4) => vec![4],
        _ => vec![1, 2, 3, 5, 6],
    })));
    let prompts: [&[u32]; 2] = [&[5, 3], &[7, 6, 5]];
    answer(&engine, &mine, &prompts, config.clone())
}

/// What is allowed is forced where nothing of it is left in any sequence of a prompt; so whether all of them
/// are in one step must not matter.
#[test]
fn what_is_forced_does_not_depend_on_the_steps() {
    let config = json!({"max_new_tokens": 6, "eos_token_id": [], "bad_words_ids": [[4]]});
    let searching = json!({"num_beams": 3, "num_return_sequences": 3});
    let drawing =
        |seed: u32| json!({"do_sample": true, "seed": seed, "num_return_sequences": 3, "top_k": 0});
    let mut forced = 0;
    for more in std::iter::once(searching).chain((0..20).map(drawing)) {
        let config = with(&config, more);
        // Where one of several answers has nothing left to draw from, that is an error.
        let seen = |sequences: usize| match answers(sequences, &config) {
            Ok(output) => Ok((output.sequences, output.sequences_scores)),
            Err(error) => Err(error.to_string()),
        };
        let together = seen(8);
        for sequences in 1..4 {
            assert_eq!(seen(sequences), together, "{sequences}, {config}");
        }
        let answers = together.iter().flat_map(|(sequences, _)| sequences);
        forced += answers.flatten().filter(|id| **id == 4).count();
    }
    assert!(forced > 0, "nothing was ever forced");
}
