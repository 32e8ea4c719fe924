//! Several answers, what is returned of them, and padding.

use std::rc::Rc;

use decant::{
    error::ErrorKind,
    generation::{Arguments, Engine, Prompt},
};
use pollster::block_on;
use serde_json::{Value, json};

use crate::support::{
    fake::{Fake, Setup},
    loops::{PIECES, counting, events, generation, output, pages_used},
};

fn sloping() -> (Engine, Rc<Fake>) {
    let script = |ids: &[u32]| {
        let seed = ids.iter().sum::<u32>() + ids.len() as u32;
        (0..8)
            .map(|id| ((id * 5 + seed) % 8) as f32 / 3.0)
            .collect()
    };
    let mut setup = Setup::new(&PIECES);
    setup.pages = 64;
    setup.engine(script, Rc::default())
}

#[test]
fn several_answers_share_the_evaluation_of_the_prompt() {
    let (engine, fake) = sloping();
    let prompt: Vec<u32> = (0..21).map(|i| i % 7 + 1).collect();
    let config = json!({
        "do_sample": true, "num_return_sequences": 4, "max_new_tokens": 5, "seed": 3,
        "eos_token_id": [],
    });
    let mut running = generation(&engine, json!([prompt, [3, 4]]), config.clone()).unwrap();
    let all = events(&mut running);
    let found = running.finish().unwrap();
    assert_eq!(found.sequences.len(), 8);
    assert_eq!(fake.rows(), 21 + 2 + 8 * 4);
    for (place, sequence) in found.sequences.iter().enumerate() {
        let ids = all
            .iter()
            .filter(|event| event.sequence == place)
            .map(|event| event.token_id);
        assert!(ids.eq(sequence.iter().copied()));
    }
    let mut different = found.sequences.clone();
    different.sort();
    different.dedup();
    assert!(different.len() > 5, "each answer is a draw of its own");
    assert_eq!(
        output(&engine, json!([prompt, [3, 4]]), config).sequences,
        found.sequences
    );
    assert_eq!(pages_used(&engine), 0);
}

#[test]
fn answers_that_end_early_free_their_pages() {
    let (engine, _) = sloping();
    let config = json!({
        "do_sample": true, "num_return_sequences": 4, "max_new_tokens": 40, "seed": 5,
        "eos_token_id": [1, 2],
    });
    let mut running = generation(&engine, json!([3, 4, 5]), config).unwrap();
    let mut used = Vec::new();
    while block_on(running.next()).unwrap().is_some() {
        used.push(pages_used(&engine));
    }
    assert!(used.last() < used.iter().max());
    assert_eq!(pages_used(&engine), 0);
}

#[test]
fn scores_are_those_that_tokens_were_chosen_from() {
    let (engine, _) = sloping();
    let config = json!({
        "repetition_penalty": 1.5, "max_new_tokens": 6, "output_scores": true, "output_logits": true,
        "top_logprobs": 3, "return_dict_in_generate": true, "suppress_tokens": [2],
    });
    let mut running = generation(&engine, json!([[1, 2], [5, 6, 7, 3]]), config).unwrap();
    let all = events(&mut running);
    let found = running.finish().unwrap();
    let (scores, logits) = (found.scores.unwrap(), found.logits.unwrap());
    let token_scores = found.token_scores.unwrap();
    for (row, sequence) in found.sequences.iter().enumerate() {
        assert_eq!(
            (scores[row].len(), logits[row].len()),
            (sequence.len(), sequence.len())
        );
        for (step, &id) in sequence.iter().enumerate() {
            let (processed, raw) = (&scores[row][step], &logits[row][step]);
            assert_ne!(processed, raw);
            assert_eq!(processed[2], f32::NEG_INFINITY);
            assert_eq!(
                found.transition_scores.as_ref().unwrap()[row][step],
                processed[id as usize]
            );
            let score = &token_scores[row][step];
            let best = processed.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let total: f64 = processed.iter().map(|s| f64::from(s - best).exp()).sum();
            assert!(
                (f64::from(score.logprob) + total.ln()).abs() < 1e-6,
                "greedy takes the best"
            );
            assert_eq!((score.top.len(), score.top[0]), (3, (id, score.logprob)));
            assert!(score.top.is_sorted_by(|a, b| a.1 >= b.1));
        }
        let shown = all.iter().filter(|event| event.sequence == row);
        assert!(
            shown
                .map(|event| event.score.as_ref().unwrap())
                .eq(&token_scores[row])
        );
    }
    let without = output(&engine, json!([1, 2]), json!({}));
    assert!(without.scores.is_none() && without.logits.is_none() && without.token_scores.is_none());
    assert!(without.sequences_scores.is_none() && without.beam_indices.is_none());
    let few = output(
        &engine,
        json!([1, 2]),
        json!({"top_logprobs": 0, "max_new_tokens": 1}),
    );
    assert_eq!(few.token_scores.unwrap()[0][0].top, []);
    // More than there are tokens gives all of them.
    for count in [9_u64, (1 << 53) - 1] {
        let all = json!({"top_logprobs": count, "max_new_tokens": 1});
        let all = output(&engine, json!([1, 2]), all);
        assert_eq!(all.token_scores.unwrap()[0][0].top.len(), 8);
    }
}

fn masked(engine: &Engine, prompts: Value, mask: Value) -> Result<Vec<Vec<u32>>, String> {
    let arguments = Arguments {
        attention_mask: Some(Arguments::parse_mask(&mask.into()).map_err(|e| e.to_string())?),
        ..Arguments::default()
    };
    let prompts = Prompt::parse_many(&prompts.into()).unwrap();
    let config = json!({"max_new_tokens": 4}).into();
    let mut running = engine
        .generate_with(&prompts, &config, &arguments)
        .map_err(|error| error.to_string())?;
    Ok(block_on(running.output()).unwrap().sequences)
}

#[test]
fn padding_on_the_left_changes_nothing() {
    let (engine, fake) = sloping();
    let plain = output(
        &engine,
        json!([[5, 6], [7, 1, 2, 3]]),
        json!({"max_new_tokens": 4}),
    );
    // An engine of its own, which has nothing of these prompts in its cache.
    let (other, seen) = sloping();
    let padded = masked(
        &other,
        json!([[0, 0, 5, 6], [7, 1, 2, 3]]),
        json!([[0, 0, 1, 1], [1, 1, 1, 1]]),
    );
    assert_eq!(padded.unwrap(), plain.sequences);
    assert_eq!(seen.rows(), fake.rows(), "padding is not computed");
    let one = masked(&engine, json!([9, 5, 6]), json!([false, true, true]));
    assert_eq!(
        one.unwrap(),
        plain.sequences[..1],
        "what does not count may be any id"
    );
    let refused = |prompts: Value, mask: Value| masked(&engine, prompts, mask).unwrap_err();
    let message = refused(json!([1, 2, 3]), json!([1, 0, 1]));
    assert!(
        message.contains("attention_mask: found 0 at 1 after a 1"),
        "{message}"
    );
    assert!(refused(json!([1, 2, 3]), json!([1, 1])).contains("2 values for 3 ids"));
    assert!(refused(json!([[1], [2]]), json!([[1]])).contains("found 1 rows"));
    assert!(refused(json!([1, 2]), json!([0, 2])).contains("found 2"));
    assert!(refused(json!([1, 2]), json!([0, 0])).contains("the prompt is empty"));
    assert!(refused(json!(" a"), json!([1])).contains("prompt of text"));
}

#[test]
fn what_has_no_use_for_a_negative_prompt_says_so() {
    let (engine, _) = sloping();
    let run = |negative: Vec<Prompt>, config: Value| {
        let arguments = Arguments {
            negative_prompts: Some(negative),
            ..Arguments::default()
        };
        let prompts = [Prompt::Ids(vec![5, 6]), Prompt::Ids(vec![1])];
        engine.generate_with(&prompts, &config.into(), &arguments)
    };
    let ids = |ids: &[u32]| Prompt::Ids(ids.to_vec());
    let idle = run(vec![ids(&[1])], json!({})).unwrap();
    assert!(
        idle.plan()
            .warnings
            .iter()
            .any(|warning| warning.field == "negative_prompt")
    );
    let guided = json!({"guidance_scale": 2.0, "max_new_tokens": 4});
    let mut one = run(vec![ids(&[3])], guided.clone()).unwrap();
    let mut each = run(vec![ids(&[3]), ids(&[3])], guided.clone()).unwrap();
    let [one, each] = [&mut one, &mut each].map(|running| block_on(running.output()).unwrap());
    assert_eq!(one.sequences, each.sequences);
    // Without one it is the last token of the prompt.
    let mut last = run(vec![ids(&[6]), ids(&[1])], guided.clone()).unwrap();
    let last = block_on(last.output()).unwrap();
    assert_eq!(
        output(&engine, json!([[5, 6], [1]]), guided.clone()).sequences,
        last.sequences
    );
    let error = run(vec![ids(&[3]); 3], guided.clone()).err().unwrap();
    assert!(
        error
            .to_string()
            .starts_with("negative_prompt: found 3 prompts")
    );
    let error = run(vec![ids(&[9])], guided.clone()).err().unwrap();
    assert!(
        error.to_string().contains("negative prompt: token id 0"),
        "{error}"
    );
    let error = run(vec![ids(&[3; 62])], guided).err().unwrap();
    assert_eq!(error.kind(), &ErrorKind::ContextFull { limit: 64 });
    assert_eq!(pages_used(&engine), 0);
}

/// The reference repeats all of the prompt at every step; it proves that the cache is right.
#[test]
fn without_a_cache_everything_is_evaluated_again() {
    let (engine, fake) = sloping();
    let prompt = json!([1, 2, 3, 4, 5]);
    let cached = output(&engine, prompt.clone(), json!({"max_new_tokens": 6}));
    let before = fake.rows();
    let config = json!({"max_new_tokens": 6, "use_cache": false});
    let recomputed = output(&engine, prompt, config);
    assert_eq!(recomputed.sequences, cached.sequences);
    assert_eq!(recomputed.usage.cached_tokens, 0);
    assert_eq!(fake.rows() - before, 5 + 6 + 7 + 8 + 9 + 10);
}

#[test]
fn a_prompt_is_read_in_chunks_of_the_size_that_was_asked_for() {
    let (engine, fake) = counting(Setup::new(&PIECES));
    let config = json!({"prefill_chunk_size": 3, "max_new_tokens": 2});
    let found = output(&engine, json!([1, 2, 3, 4, 5, 1, 2]), config);
    assert_eq!(found.sequences, [[3, 4]]);
    let rows = fake
        .steps
        .borrow()
        .iter()
        .map(|(_, step)| step.tokens.len())
        .collect::<Vec<_>>();
    assert_eq!(rows, [3, 3, 1, 1]);
}
