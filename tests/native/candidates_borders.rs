//! Drafts at borders: of the context, of the vocabulary, of the length from which angles are others.

use std::rc::Rc;

use decant::generation::{Arguments, Engine, LongAngles, Prompt};
use serde_json::{Value, json};

use crate::support::{
    fake::{Fake, Setup, only, tape},
    loops::{PIECES, assisted, generation, output, with},
};

/// A model that says the same six tokens in turn.
fn repeating(change: impl FnOnce(&mut Setup)) -> (Engine, Rc<Fake>) {
    let mut setup = Setup::new(&PIECES);
    setup.tapes = vec![tape(1, 1), tape(32, 32)];
    change(&mut setup);
    setup.engine(
        |ids: &[u32]| turn(ids, &[3, 1, 4, 2, 6, 5], 8),
        Rc::default(),
    )
}

/// Scores that go on in `cycle`.
fn turn(ids: &[u32], cycle: &[u32], vocabulary: usize) -> Vec<f32> {
    let at = cycle.iter().position(|id| Some(id) == ids.last());
    only(cycle[at.map_or(0, |at| (at + 1) % cycle.len())], vocabulary)
}

/// Each choice is made under the angles of the text as it is then, however much of a draft was evaluated
/// with it.
#[test]
fn a_draft_makes_no_sequence_long_before_its_time() {
    let prompt = [3, 1, 4, 2, 6, 5, 3, 1];
    for after in 8..20 {
        let long = LongAngles { after, first: 64 };
        let config = json!({"max_new_tokens": 14, "eos_token_id": []});
        let lookup = with(&config, json!({"prompt_lookup_num_tokens": 5}));
        let drafts = with(&config, json!({"num_assistant_tokens": 5})).into();
        let (assistant, _) = repeating(|_| {});
        for by_lookup in [true, false] {
            let (engine, fake) = repeating(|setup| setup.long = Some(long));
            let found = match by_lookup {
                true => output(&engine, json!(prompt), lookup.clone()),
                false => assisted(&engine, &assistant, &prompt, &drafts),
            };
            let speculation = found.speculation.unwrap();
            assert!(speculation.accepted > 5, "{speculation:?}");
            assert_eq!(found.sequences[0].len(), 14);
            for (_, step) in fake.steps.borrow().iter() {
                for &row in &step.outputs {
                    let length = step.positions[row as usize] as usize + 1;
                    let angles = step.angles[step.slots[row as usize] as usize];
                    assert_eq!(
                        angles,
                        if length > after { 64 } else { 0 },
                        "{length} of {after}"
                    );
                }
            }
        }
    }
}

/// How many tokens each draft had: the rows of the steps that verified it, less one.
fn drafts(fake: &Fake) -> Vec<usize> {
    let steps = fake.steps.borrow();
    let rows = steps[1..].iter().map(|(_, step)| step.tokens.len());
    rows.map(|rows| rows - 1).collect()
}

#[test]
fn an_assistant_drafts_as_far_as_its_context_reaches() {
    let (engine, fake) = repeating(|_| {});
    let (assistant, other) = repeating(|setup| setup.facts.context_length = 14);
    let config = json!({"max_new_tokens": 30, "eos_token_id": [], "num_assistant_tokens": 20});
    let plain = output(&repeating(|_| {}).0, json!([3, 1]), config.clone());
    let found = assisted(&engine, &assistant, &[3, 1], &config.into());
    assert_eq!(found.sequences, plain.sequences);
    // Of 15 ids the assistant evaluates 14; 3 are known before the first draft, and 16 after it.
    assert_eq!(drafts(&fake)[..3], [12, 0, 0]);
    let positions = other.steps.borrow();
    let last = positions.iter().flat_map(|(_, step)| &step.positions).max();
    assert_eq!(last, Some(&13));
}

/// A matrix may have fewer rows than its tokenizer has tokens, or another number than the other model's.
#[test]
fn no_draft_holds_a_token_that_a_model_does_not_have() {
    let config = json!({"max_new_tokens": 12, "eos_token_id": [], "num_assistant_tokens": 4});
    // The model says token 7, which the assistant cannot read.
    let (engine, _) = Setup::new(&PIECES).engine(|ids| turn(ids, &[1, 2, 3, 7], 8), Rc::default());
    let mut small = Setup::new(&PIECES);
    small.facts.vocabulary = 7;
    let (assistant, _) = small.engine(|ids| turn(ids, &[1, 2, 3], 7), Rc::default());
    let plain = output(&engine, json!([1]), config.clone());
    let found = assisted(&engine, &assistant, &[1], &config.clone().into());
    assert_eq!(found.sequences, plain.sequences);
    assert_eq!(found.speculation.unwrap().accepted, 2, "tokens 2 and 3");
    // It may propose that token where it is forced, and nothing where no token of its own is left.
    for more in [
        json!({"forced_bos_token_id": 7}),
        json!({"suppress_tokens": [0, 1, 2, 3, 4, 5, 6]}),
    ] {
        let config = with(&config, more);
        let plain = output(&engine, json!([1]), config.clone());
        let found = assisted(&engine, &assistant, &[1], &config.clone().into());
        assert_eq!(found.sequences, plain.sequences, "{config}");
    }
    // Between two tokenizers: each knows a word that its model does not have.
    let words = ["<eos>", " red", " green", " blue", " pink"];
    let others = [" red", " green", " blue", " pink", "<eos>"];
    let of = |pieces: &[&str], vocabulary: usize, cycle: &'static [u32]| {
        let mut setup = Setup::new(pieces);
        setup.facts.vocabulary = vocabulary;
        setup.facts.eos_token_ids = Vec::new();
        setup
            .engine(move |ids| turn(ids, cycle, vocabulary), Rc::default())
            .0
    };
    let colours = of(&words, 4, &[1, 2, 3]);
    let (more, fewer) = (of(&others, 5, &[0, 1, 2, 3]), of(&others, 2, &[0, 1]));
    let plain = output(&colours, json!([1]), config.clone());
    for (assistant, right) in [(more, 8), (fewer, 1)] {
        let found = assisted(&colours, &assistant, &[1], &config.clone().into());
        assert_eq!(found.sequences, plain.sequences);
        assert_eq!(found.speculation.unwrap().accepted, right);
    }
}

#[test]
fn the_plan_says_what_keeps_the_choice_on_the_host() {
    let (engine, _) = repeating(|_| {});
    let lookup = json!({"prompt_lookup_num_tokens": 3});
    let running = generation(&engine, json!([3, 1]), lookup).unwrap();
    assert_eq!(
        running.plan().home.reason(),
        Some("prompt_lookup_num_tokens")
    );
    let arguments = Arguments {
        assistant: Some(engine.clone()),
        ..Arguments::default()
    };
    let prompts = [Prompt::Ids(vec![3, 1])];
    let config = Value::Object(serde_json::Map::new()).into();
    let running = engine.generate_with(&prompts, &config, &arguments).unwrap();
    assert_eq!(running.plan().home.reason(), Some("assistant_model"));
}
