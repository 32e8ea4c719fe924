//! Selection: argmax, draws, and rows that offer no choice (failure B10).

use decant::{
    error::ErrorKind,
    generation::{
        Row, Selection, Value, apply_processors,
        selection::{Draw, philox4x32},
    },
};
use serde_json::json;

use crate::support::random::Random;

const FIRST: Draw = Draw {
    sequence: 0,
    step: 0,
};

fn sampler(seed: u64) -> Selection {
    Selection::Multinomial { seed }
}

/// The known answers that Salmon et al. publish with their reference implementation (Random123,
/// `kat_vectors`).
#[test]
fn philox_gives_its_known_answers() {
    let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
    let known = [
        (
            [0; 4],
            [0; 2],
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
        ),
        (
            [!0; 4],
            [!0; 2],
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
        ),
        (
            pi,
            [0xa409_3822, 0x299f_31d0],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        ),
    ];
    for (counter, key, expected) in known {
        assert_eq!(philox4x32(counter, key), expected);
    }
}

#[test]
fn greedy_takes_the_best_and_of_equals_the_lowest_id() {
    let select = |scores: &[f32]| Selection::Greedy.select(scores, FIRST).unwrap();
    assert_eq!(select(&[1.0, 3.0, 2.0]), 1);
    assert_eq!(select(&[0.0, 2.0, 2.0, 2.0]), 1);
    assert_eq!(select(&[f32::NEG_INFINITY, -5.0]), 1);
    assert_eq!(select(&[f32::MIN, f32::NEG_INFINITY]), 0);
}

#[test]
fn a_row_without_a_distribution_is_an_error_that_says_why() {
    let (nan, inf, gone) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
    let rows: [(&[f32], &str); 7] = [
        (&[nan, 1.0, 2.0], "the score of token 0 is NaN"),
        (&[1.0, nan, 2.0], "the score of token 1 is NaN"),
        (&[1.0, 2.0, nan], "the score of token 2 is NaN"),
        (&[nan; 3], "the score of token 0 is NaN"),
        (&[1.0, inf, 2.0], "the score of token 1 is inf"),
        (&[gone; 3], "every token was removed"),
        (&[], "every token was removed"),
    ];
    for (row, why) in rows {
        for selection in [Selection::Greedy, sampler(1)] {
            let error = selection.select(row, FIRST).unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::InvalidScores);
            assert!(error.to_string().contains(why), "{row:?}: {error}");
        }
    }
}

/// Draws 200,000 tokens and compares their counts with the softmax of `scores`.
///
/// The statistic Σ (count − expected)² / expected has about a χ² distribution; returned is how many
/// standard normal deviations it lies above its mean (Wilson and Hilferty 1931).
fn excess(scores: &[f32], draw: impl Fn(u32) -> u32) -> f64 {
    const DRAWS: u32 = 200_000;
    let mut counts = vec![0u32; scores.len()];
    for i in 0..DRAWS {
        counts[draw(i) as usize] += 1;
    }
    let weights: Vec<f64> = scores.iter().map(|s| f64::from(*s).exp()).collect();
    let total: f64 = weights.iter().sum();
    let (mut statistic, mut cells) = (0.0, 0.0);
    for (weight, count) in weights.iter().zip(counts) {
        let expected = weight / total * f64::from(DRAWS);
        if expected == 0.0 {
            assert_eq!(count, 0, "a removed token was drawn");
            continue;
        }
        assert!(expected > 5.0, "too rare a token for the approximation");
        statistic += (f64::from(count) - expected).powi(2) / expected;
        cells += 1.0;
    }
    let freedom: f64 = cells - 1.0;
    let spread = 2.0 / (9.0 * freedom);
    ((statistic / freedom).cbrt() - (1.0 - spread)) / spread.sqrt()
}

/// p > 0.001 is an excess below this quantile of the normal distribution.
const LIMIT: f64 = 3.09;

#[test]
fn draws_follow_the_processed_distribution() {
    let mut random = Random(7);
    let raw = random.values(100, 3.0);
    let config: Value =
        json!({"do_sample": true, "temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.01})
            .into();
    let steps = apply_processors(&raw, Row::default(), &config).unwrap();
    let processed = &steps.last().unwrap().scores;
    let few = [0.0, 1.0, 2.0, -1.0, 0.5];
    let draws = |scores: &[f32], seed: u64, sequence, step| {
        let draw = Draw { sequence, step };
        sampler(seed).select(scores, draw).unwrap()
    };
    // The draws of one call are those of its steps; of many calls, those of their seeds; of a batch,
    // those of its sequences. All must follow the distribution.
    let found = [
        excess(processed, |step| draws(processed, 42, 0, step)),
        excess(&raw, |step| draws(&raw, 42, 0, step)),
        excess(&few, |step| draws(&few, 42, 0, step)),
        excess(&few, |seed| draws(&few, u64::from(seed) << 20, 0, 0)),
        excess(&few, |sequence| draws(&few, 42, sequence, 5)),
    ];
    assert!(found.iter().all(|excess| *excess < LIMIT), "{found:?}");
}

#[test]
fn the_distribution_check_notices_a_bias() {
    let scores = [0.0, 1.0, 2.0, -1.0, 0.5];
    let biased = [0.0, 1.0, 2.02, -1.0, 0.5];
    let found = excess(&scores, |step| {
        let draw = Draw { sequence: 0, step };
        sampler(42).select(&biased, draw).unwrap()
    });
    assert!(
        found > LIMIT,
        "2 % more of one token went unnoticed: {found}"
    );
}

#[test]
fn a_draw_depends_on_seed_sequence_and_step_and_nothing_else() {
    let scores = Random(3).values(50, 1.0);
    let draws = |seed: u64, sequence: u32| -> Vec<u32> {
        let steps = (0..64).map(|step| Draw { sequence, step });
        let draws = steps.map(|draw| sampler(seed).select(&scores, draw).unwrap());
        draws.collect()
    };
    assert_eq!(draws(1, 0), draws(1, 0));
    assert_ne!(draws(1, 0), draws(2, 0));
    assert_ne!(
        draws(1, 0),
        draws(1 << 32, 0),
        "the seed's high word counts"
    );
    assert_ne!(draws(1, 0), draws(1, 1));
    // A token's noise does not depend on how many others there are: removing the rest changes nothing
    // as long as the winner stays.
    for step in 0..64 {
        let draw = Draw { sequence: 0, step };
        let all = sampler(9).select(&scores, draw).unwrap();
        let mut few = vec![f32::NEG_INFINITY; 50];
        for id in [all as usize, 7, 21] {
            few[id] = scores[id];
        }
        assert_eq!(sampler(9).select(&few, draw).unwrap(), all);
    }
}
