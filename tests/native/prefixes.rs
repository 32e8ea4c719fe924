//! Prompts that share a beginning with what is in the cache, in models whose layers slide or convolve: the
//! answers are those of a cold run.

use decant::generation::{Prompt, Value};
use pollster::block_on;
use serde_json::json;

use crate::support::golden_engine::engine;

/// The greedy answer to `ids`, five tokens.
fn answer(engine: &decant::generation::Engine, ids: &[u32]) -> Vec<u32> {
    let config = Value::from(json!({ "do_sample": false, "max_new_tokens": 5 }));
    let running = engine.generate_prompts(&[Prompt::Ids(ids.to_vec())], &config);
    let output = block_on(running.unwrap().output()).unwrap();
    output.sequences[0].clone()
}

#[test]
fn a_shared_prefix_changes_no_answer_where_layers_slide_or_convolve() {
    // Windows of 8, and of 6 in some of the layers; and convolutions over 3 positions.
    for model in ["mistral", "gemma2", "gemma3", "lfm2"] {
        let prompt: Vec<u32> = (0..20).map(|i| 3 + i * 17 % 300).collect();
        // Prefixes shorter than the window, around it and beyond it; the whole prompt, less and more of it;
        // and another end.
        let mut prompts: Vec<Vec<u32>> = [20, 2, 5, 6, 7, 8, 9, 13, 17, 19, 20, 20]
            .map(|len| prompt[..len].to_vec())
            .into();
        prompts.push([&prompt[..], &[40]].concat());
        for len in [2, 7, 9, 19] {
            prompts.push([&prompt[..len], &[41, 42, 43]].concat());
        }
        let warm = engine(model);
        for ids in &prompts {
            assert_eq!(
                answer(&warm, ids),
                answer(&engine(model), ids),
                "{model}: {ids:?}"
            );
        }
        // The comparison is of answers that took something over, and not from the last token on.
        let reused = warm.stats().usage.cached_tokens;
        let asked = warm.stats().usage.prompt_tokens;
        assert!(
            (60..asked).contains(&reused),
            "{model}: {reused} of {asked}"
        );
    }
}
