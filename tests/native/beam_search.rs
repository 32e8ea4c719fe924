//! Beam search in whole calls: pages, batches, what is shown and when.

use std::rc::Rc;

use decant::generation::{
    Arguments, EarlyStopping, Engine, Prompt, Pull, StopReason,
    selection::{BeamSearch, BeamSettings},
};
use pollster::block_on;
use serde_json::{Value, json};

use crate::support::{
    fake::{Fake, Setup, tape},
    loops::{PIECES, events, generation, output, pages_used},
};

/// Scores that depend on the whole history, so that a foreign page would be noticed. Token 0 ends.
fn scores(ids: &[u32]) -> Vec<f32> {
    let seed = ids
        .iter()
        .fold(17u32, |seed, &id| seed.wrapping_mul(0x0100_0193) ^ (id + 1));
    let mixed = |id: u32| (seed ^ id.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b) >> 20;
    (0..8).map(|id| mixed(id) as f32 / 700.0).collect()
}

fn engine(change: impl FnOnce(&mut Setup)) -> (Engine, Rc<Fake>) {
    let mut setup = Setup::new(&PIECES);
    setup.pages = 64;
    change(&mut setup);
    setup.engine(scores, Rc::default())
}

fn log_softmax(scores: &[f32]) -> Vec<f32> {
    let total = scores.iter().map(|s| f64::from(*s).exp()).sum::<f64>().ln();
    scores
        .iter()
        .map(|s| (f64::from(*s) - total) as f32)
        .collect()
}

/// The answers of a search that has no cache, no batch and no pages.
fn expected(
    prompt: &[u32],
    beams: usize,
    longest: usize,
    row: impl Fn(&[u32]) -> Vec<f32>,
) -> Vec<(f32, Vec<u32>)> {
    let settings = BeamSettings {
        beams,
        considered: 2 * beams,
        length_penalty: 1.0,
        early_stopping: EarlyStopping::No,
        seed: None,
    };
    let mut search = BeamSearch::new(settings, longest);
    let mut answers = vec![Vec::new(); beams];
    while !search.is_over() {
        let rows: Vec<Vec<f32>> = answers
            .iter()
            .map(|answer: &Vec<u32>| row(&[prompt, &answer[..]].concat()))
            .collect();
        let found = search
            .continuations(rows.iter().map(Vec::as_slice), 0)
            .unwrap();
        let extended =
            |rank: usize| [&answers[found[rank].beam][..], &[found[rank].token]].concat();
        let ends = |rank: usize| extended(rank).len() == longest || found[rank].token == 0;
        let going = search.advance(&found, ends, extended);
        answers = going.into_iter().map(extended).collect();
    }
    search.finish(beams, |_| {
        unreachable!("every search ends with enough results")
    })
}

fn prompts() -> Vec<Vec<u32>> {
    vec![
        vec![5, 6],
        vec![7, 1, 2, 3, 4],
        vec![2],
        vec![1, 2, 3, 4, 5, 6, 7, 3, 5],
    ]
}

/// What may differ about an engine or a call without making a difference.
#[test]
fn every_prompt_is_searched_as_if_it_were_alone() {
    let shapes: [fn(&mut Setup); 6] = [
        |_| {},
        |s| s.sequences = 2,
        |s| s.tapes = vec![tape(1, 1)],
        |s| s.tapes = vec![tape(3, 2), tape(32, 8)],
        |s| (s.page_size, s.pages) = (1, 300),
        |s| s.page_size = 64,
    ];
    for shape in shapes {
        let (engine, _) = engine(shape);
        for (beams, use_cache) in [(3, true), (5, true), (2, false)] {
            let config = json!({
                "num_beams": beams, "num_return_sequences": beams, "max_new_tokens": 7,
                "use_cache": use_cache,
            });
            let found = output(&engine, json!(prompts()), config);
            let row = |ids: &[u32]| log_softmax(&scores(ids));
            let wanted = prompts()
                .into_iter()
                .flat_map(|prompt| expected(&prompt, beams, 7, row));
            let (values, sequences): (Vec<f32>, Vec<_>) = wanted.unzip();
            assert_eq!(found.sequences, sequences, "{beams} beams");
            let scores = found.sequences_scores.unwrap();
            assert_eq!(scores.len(), values.len());
            for (a, b) in scores.iter().zip(values) {
                assert!((a - b).abs() < 1e-4);
            }
            assert_eq!(pages_used(&engine), 0);
        }
    }
}

/// Each beam has an unconditional sequence of its own, which follows it when beams are dealt anew.
#[test]
fn guidance_follows_the_beams() {
    let (engine, _) = engine(|_| {});
    let (prompt, negative) = (vec![5, 6, 1], vec![7, 2]);
    let arguments = Arguments {
        negative_prompts: Some(vec![Prompt::Ids(negative.clone())]),
        ..Arguments::default()
    };
    let config = json!({
        "num_beams": 3, "num_return_sequences": 3, "max_new_tokens": 6, "guidance_scale": 3.0,
    });
    let running = engine.generate_with(&[Prompt::Ids(prompt.clone())], &config.into(), &arguments);
    let found = block_on(running.unwrap().output()).unwrap();
    let guided = |ids: &[u32]| {
        let with = log_softmax(&scores(ids));
        let without = log_softmax(&scores(&[&negative[..], &ids[prompt.len()..]].concat()));
        with.iter()
            .zip(without)
            .map(|(c, u)| 3.0 * (c - u) + u)
            .collect()
    };
    let (_, sequences): (Vec<f32>, Vec<_>) = expected(&prompt, 3, 6, guided).into_iter().unzip();
    assert_eq!(found.sequences, sequences);
    let plain = expected(&prompt, 3, 6, |ids: &[u32]| log_softmax(&scores(ids)));
    let (_, plain): (Vec<f32>, Vec<_>) = plain.into_iter().unzip();
    assert_ne!(found.sequences, plain);
}

/// The pages of a prompt are there once, however many beams there are.
#[test]
fn beams_share_the_pages_of_the_prompt() {
    const NEW: usize = 24;
    let prompt: Vec<u32> = (0..512).map(|i| 1 + i * 5 % 7).collect();
    let positions = |beams: usize| {
        let (engine, fake) = engine(|setup| {
            setup.facts.context_length = 1024;
            (setup.page_size, setup.pages) = (32, 32);
            setup.tapes = vec![tape(1, 1), tape(128, 16)];
        });
        let config = json!({ "num_beams": beams, "max_new_tokens": NEW, "eos_token_id": [] });
        let found = output(&engine, json!(prompt), config);
        assert_eq!(found.sequences[0].len(), NEW);
        let steps = fake.steps.borrow();
        let pages = steps.iter().map(|(_, step)| {
            let mut pages: Vec<u32> = step.tables.iter().flatten().copied().collect();
            pages.sort_unstable();
            pages.dedup();
            32 * pages.len()
        });
        pages.max().unwrap()
    };
    let (greedy, beams) = (positions(1), positions(4));
    assert!(beams > greedy);
    let limit = 1.3 * greedy as f64 + (4 * NEW) as f64;
    assert!(
        (beams as f64) < limit,
        "{beams} positions, allowed are {limit}"
    );
}

#[test]
fn answers_are_shown_when_they_are_final() {
    let (engine, fake) = engine(|_| {});
    let config = json!({
        "num_beams": 3, "num_return_sequences": 2, "max_new_tokens": 6, "stop_strings": " c d",
        "top_logprobs": 2, "output_scores": true, "output_logits": true,
    });
    let mut running = generation(&engine, json!(prompts()), config).unwrap();
    let first = block_on(running.next()).unwrap().unwrap();
    assert!(fake.forwards() >= 3, "beams are not final at once");
    let mut all = vec![first];
    all.extend(events(&mut running));
    let found = running.finish().unwrap();
    let (mut ids, mut texts) = (vec![Vec::new(); 8], vec![String::new(); 8]);
    let mut logprobs = vec![Vec::new(); 8];
    for event in all {
        ids[event.sequence].push(event.token_id);
        texts[event.sequence].push_str(&event.text);
        logprobs[event.sequence].push(event.score.unwrap());
    }
    assert_eq!((&ids, &texts), (&found.sequences, &found.texts));
    assert_eq!(Some(&logprobs), found.token_scores.as_ref());
    let tokens: usize = ids.iter().map(Vec::len).sum();
    assert_eq!(found.usage.completion_tokens, tokens);
    // Tokens of answers, not of beams; the first of each is made with the prompt.
    assert_eq!(found.timings.decode_tokens, tokens - 8);
    // Scores are those of beams; beam indices say where a sequence's tokens came from.
    let (scores, transitions) = (found.scores.unwrap(), found.transition_scores.unwrap());
    let (indices, totals) = (found.beam_indices.unwrap(), found.sequences_scores.unwrap());
    assert_eq!((scores.len(), found.logits.unwrap().len()), (12, 12));
    for sequence in 0..8 {
        let mut total = 0.0;
        assert_eq!(ids[sequence].len(), indices[sequence].len());
        for (step, (&id, &row)) in ids[sequence].iter().zip(&indices[sequence]).enumerate() {
            assert_eq!(row / 3, sequence / 2, "a row of its own prompt");
            let score = scores[row][step][id as usize];
            assert_eq!(score, transitions[sequence][step]);
            assert!((score - logprobs[sequence][step].logprob).abs() < 1e-5);
            total += score;
        }
        assert!((totals[sequence] - total / ids[sequence].len() as f32).abs() < 1e-4);
    }
}

#[test]
fn a_search_that_is_stopped_gives_its_best_beams() {
    let (engine, _) = engine(|_| {});
    let config = json!({
        "num_beams": 2, "num_return_sequences": 2, "max_new_tokens": 40, "eos_token_id": [],
    });
    let mut running = generation(&engine, json!([[1, 2], [3]]), config.clone()).unwrap();
    let aborted = running.finish().unwrap();
    // Before the first step nothing is found, and there are as many answers as were wanted all the same.
    assert_eq!(aborted.stop_reasons, [StopReason::Aborted; 4]);
    assert_eq!(aborted.sequences, [[0; 0]; 4]);
    assert_eq!(aborted.sequences_scores, Some(vec![0.0; 4]));
    assert_eq!(aborted.usage.completion_tokens, 0);
    assert_eq!(pages_used(&engine), 0);
    // After some steps there are beams, and all of them are given.
    let mut running = generation(&engine, json!([1, 2]), config).unwrap();
    for _ in 0..5 {
        assert_eq!(block_on(running.pull()).unwrap(), Pull::Nothing);
    }
    running.stop_handle().stop();
    assert_eq!(block_on(running.next()).unwrap(), None);
    let stopped = running.finish().unwrap();
    let lengths: Vec<usize> = stopped.sequences.iter().map(Vec::len).collect();
    assert_eq!(lengths, [5, 5]);
    assert_eq!(stopped.usage.completion_tokens, 10);
    assert_eq!(engine.stats().usage.completion_tokens, 10);
    assert_eq!(
        stopped.timings.decode_tokens, 8,
        "but for the first of each"
    );
    assert_ne!(stopped.sequences[0], stopped.sequences[1]);
    assert!(
        stopped
            .sequences_scores
            .unwrap()
            .is_sorted_by(|a, b| a >= b)
    );
    assert_eq!(stopped.texts.len(), 2);
    for (text, ids) in stopped.texts.iter().zip(&stopped.sequences) {
        // A letter and its space for each token but the one without text.
        assert_eq!(text.len(), 2 * ids.iter().filter(|id| **id != 0).count());
    }
    assert_eq!(pages_used(&engine), 0);
}

#[test]
fn a_search_that_does_not_fit_is_refused_before_any_work() {
    let (engine, fake) = engine(|setup| setup.pages = 16);
    let config = json!({ "num_beams": 5, "max_new_tokens": 30 });
    let error = block_on(generation(&engine, json!([1, 2]), config).unwrap().output());
    assert_eq!(error.unwrap_err().kind().code(), "context_full");
    assert_eq!((fake.forwards(), pages_used(&engine)), (0, 0));
    let fits = output(
        &engine,
        json!([1, 2]),
        json!({ "num_beams": 5, "max_new_tokens": 6 }),
    );
    assert!(!fits.sequences[0].is_empty());
}

#[test]
fn counts_that_do_not_belong_together_are_refused() {
    let (engine, _) = engine(|_| {});
    let refused = |config: Value| {
        let error = generation(&engine, json!([1]), config).err().unwrap();
        error.to_string()
    };
    let more = refused(json!({"num_beams": 2, "num_return_sequences": 3}));
    assert!(more.starts_with("num_return_sequences: found 3"), "{more}");
    let many = refused(json!({"num_beams": 1e15}));
    assert!(many.starts_with("num_beams: found"), "{many}");
    let many = refused(json!({"do_sample": true, "num_return_sequences": 1e15}));
    assert!(many.starts_with("num_return_sequences: found"), "{many}");
}

/// Beam sampling is a draw of its own for each prompt, and repeats with its seed.
#[test]
fn beam_sampling_repeats_with_its_seed() {
    let (engine, _) = engine(|_| {});
    let drawn = |seed: u32| {
        let config = json!({
            "num_beams": 3, "do_sample": true, "top_k": 0, "seed": seed, "max_new_tokens": 6,
            "num_return_sequences": 3, "temperature": 1.5,
        });
        output(&engine, json!([[5, 6], [5, 6]]), config).sequences
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
    assert_ne!(drawn(1)[..3], drawn(1)[3..]);
}
