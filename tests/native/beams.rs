//! Beam search as an algorithm, on tables of log-probabilities. Failures B15, B16, B17.

use std::collections::HashMap;

use decant::generation::{
    EarlyStopping,
    selection::{BeamSearch, BeamSettings},
};

/// Log-probabilities of the next token after an answer.
type Table = fn(&[u32]) -> Vec<f32>;

/// What was found: scores and answers, best first.
type Found = Vec<(f32, Vec<u32>)>;

fn settings(beams: usize, ends: usize) -> BeamSettings {
    BeamSettings {
        beams,
        considered: beams * (1 + ends).max(2),
        length_penalty: 1.0,
        early_stopping: EarlyStopping::No,
        seed: None,
    }
}

/// Searches `table`; answers end with one of `ends` or at `longest` tokens. Also how many steps it took.
fn search(settings: BeamSettings, longest: usize, ends: &[u32], table: Table) -> (Found, usize) {
    let mut search = BeamSearch::new(settings, longest);
    let mut answers = vec![Vec::new(); settings.beams];
    let mut steps = 0;
    while !search.is_over() {
        steps += 1;
        let rows: Vec<Vec<f32>> = answers
            .iter()
            .map(|answer: &Vec<u32>| table(answer))
            .collect();
        let rows = rows.iter().map(Vec::as_slice);
        let found = search.continuations(rows, 0).unwrap();
        let extended = |rank: usize| {
            let mut answer = answers[found[rank].beam].clone();
            answer.push(found[rank].token);
            answer
        };
        let is_end = |rank: usize| {
            let answer = extended(rank);
            answer.len() == longest || ends.contains(answer.last().unwrap())
        };
        let going = search.advance(&found, is_end, extended);
        answers = going.iter().map(|&rank| extended(rank)).collect();
    }
    let found = search.finish(settings.beams, |beam| answers[beam].clone());
    (found, steps)
}

/// Failure B15: the length that scores are divided by is that of the answer alone.
#[test]
fn scores_are_divided_by_the_length_of_the_answer() {
    // Every token has log-probability -1; the answers end after 1, 2 and 4 tokens.
    let table: Table = |answer| match answer {
        [] => vec![-1.0, -1.0, -9.0],
        [1] => vec![-1.0, -1.0, -9.0],
        [1, 1] => vec![-9.0, -1.0, -9.0],
        [1, 1, 1] => vec![-1.0, -9.0, -9.0],
        _ => vec![-9.0; 3],
    };
    let (found, _) = search(settings(3, 1), 4, &[0], table);
    let expected: [&[u32]; 3] = [&[0], &[1, 0], &[1, 1, 1, 0]];
    assert_eq!(found.len(), expected.len());
    for ((score, answer), expected) in found.iter().zip(expected) {
        assert_eq!((*score, &answer[..]), (-1.0, expected));
    }
}

/// Failure B16: an end token that is not among the best `num_beams` makes no result.
#[test]
fn only_the_best_continuations_may_end() {
    let table: Table = |answer| match answer {
        // The end token ranks third at the first step, and first at the second after one beam.
        [] => vec![-0.5, -1.0, -9.0, -1.5],
        [0] => vec![-2.0, -2.0, -9.0, -0.1],
        _ => vec![-2.0, -1.9, -9.0, -3.0],
    };
    let (found, _) = search(settings(2, 1), 3, &[3], table);
    assert_eq!(found[0].1, [0, 3]);
    assert!((found[0].0 + 0.3).abs() < 1e-6);
    assert!(found.iter().all(|(_, answer)| answer[..] != [3]));
}

#[test]
fn an_end_at_once_is_an_answer_of_the_end_token_alone() {
    let table: Table = |_| vec![-3.0, -3.0, -3.0, -0.2];
    let (found, steps) = search(settings(2, 1), 6, &[3], table);
    assert_eq!(
        (&found[0].1[..], found[0].0, steps > 0),
        (&[3][..], -0.2, true)
    );
    assert!(found.iter().all(|(score, _)| score.is_finite()));
}

#[test]
fn with_several_end_tokens_enough_continuations_are_left() {
    // All three end tokens are better than everything else.
    let table: Table = |answer| match answer.len() {
        3.. => vec![-0.1, -5.0, -5.0, -5.0, -5.0],
        _ => vec![-1.0, -1.1, -1.2, -2.0, -2.1],
    };
    let (found, steps) = search(
        BeamSettings {
            length_penalty: 3.0,
            early_stopping: EarlyStopping::Never,
            ..settings(2, 3)
        },
        8,
        &[0, 1, 2],
        table,
    );
    assert!(steps > 1, "two beams went on after the first step");
    assert_eq!(found.len(), 2);
}

/// Failure B17: when the search may stop depends on the sign of the length penalty.
#[test]
fn the_search_stops_when_nothing_can_become_better() {
    // Two short answers end early; a long one is better only if its length counts enough.
    let table: Table = |answer| match answer {
        [] => vec![-1.0, -0.4, -0.5],
        [1] | [2] => vec![-0.4, -0.55, -9.0],
        [.., _, _, _, _] => vec![-0.01, -9.0, -9.0],
        _ => vec![-9.0, -0.55, -9.0],
    };
    let run = |early_stopping, length_penalty| {
        let settings = BeamSettings {
            early_stopping,
            length_penalty,
            ..settings(2, 1)
        };
        let (found, steps) = search(settings, 10, &[0], table);
        (found[0].1.len(), steps)
    };
    assert_eq!(
        run(EarlyStopping::Yes, 2.0),
        (2, 2),
        "as many results as beams"
    );
    let (length, steps) = run(EarlyStopping::Never, 2.0);
    assert!(
        length > 4 && steps > 4,
        "the longer answer wins: {length}, {steps}"
    );
    assert_eq!(run(EarlyStopping::No, -1.0), (2, 2));
    assert_eq!(
        run(EarlyStopping::Never, -1.0),
        (2, 2),
        "length can only harm"
    );
    assert_eq!(
        run(EarlyStopping::Never, 0.0),
        (2, 2),
        "length does not count"
    );
}

/// A search whose beams hold all answers there are finds the best of all, by any length penalty.
#[test]
fn a_search_wide_enough_equals_trying_everything() {
    let table: Table = |answer| {
        let seed = answer
            .iter()
            .fold(7u32, |seed, &id| seed.wrapping_mul(31) + id + 1);
        let raw = (0..4)
            .map(|id| (seed.wrapping_mul(2_654_435).wrapping_add(id * 40_503) % 97) as f32 / 25.0);
        let raw: Vec<f32> = raw.collect();
        let total = raw.iter().map(|x| x.exp()).sum::<f32>().ln();
        raw.iter().map(|x| x - total).collect()
    };
    for length_penalty in [-1.0, 0.0, 0.5, 1.0, 2.0] {
        let mut all: Found = Vec::new();
        let mut open = vec![(0.0f32, Vec::new())];
        while let Some((score, answer)) = open.pop() {
            for (id, logprob) in table(&answer).into_iter().enumerate() {
                let longer = [&answer[..], &[id as u32]].concat();
                let score = score + logprob;
                if id == 3 || longer.len() == 4 {
                    let size = (longer.len() as f64).powf(length_penalty) as f32;
                    all.push((score / size, longer));
                } else {
                    open.push((score, longer));
                }
            }
        }
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        let settings = BeamSettings {
            length_penalty,
            early_stopping: EarlyStopping::Never,
            ..settings(120, 1)
        };
        let (found, _) = search(settings, 4, &[3], table);
        // One, three and nine answers end with the end token, and 108 with the fourth token.
        assert_eq!((found.len(), all.len()), (120, 121));
        for ((a, answer), (b, expected)) in found.iter().zip(&all).take(5) {
            assert_eq!(answer, expected, "length_penalty {length_penalty}");
            assert!((a - b).abs() < 1e-5);
        }
    }
}

/// Beam sampling draws the continuations without replacement: each is as frequent among the first as the
/// softmax says, and none comes twice.
#[test]
fn beam_sampling_draws_from_the_softmax() {
    let row: Vec<f32> = vec![-0.4, -1.6, -2.5, f32::NEG_INFINITY, -3.0];
    let weights: Vec<f64> = row.iter().map(|s| f64::from(*s).exp()).collect();
    let total: f64 = weights.iter().sum();
    const DRAWS: u64 = 20_000;
    let mut pairs = HashMap::<(usize, usize), f64>::new();
    for seed in 0..DRAWS {
        let settings = BeamSettings {
            considered: 2,
            seed: Some(seed),
            ..settings(1, 1)
        };
        let search = BeamSearch::<()>::new(settings, 5);
        let found = search.continuations([&row[..]].into_iter(), 0).unwrap();
        let [a, b] = [0, 1].map(|at| found[at].token as usize);
        assert!(a != b && found[0].score >= found[1].score);
        *pairs.entry((a.min(b), a.max(b))).or_default() += 1.0;
    }
    let mut statistic = 0.0;
    for (a, b) in (0..5).flat_map(|a| (a + 1..5).map(move |b| (a, b))) {
        let [p, q] = [a, b].map(|id: usize| weights[id] / total);
        let expected = (p * q / (1.0 - p) + q * p / (1.0 - q)) * DRAWS as f64;
        let count = pairs.remove(&(a, b)).unwrap_or(0.0);
        if expected > 0.0 {
            statistic += (count - expected).powi(2) / expected;
        } else {
            assert_eq!(count, 0.0);
        }
    }
    // The χ² distribution with five degrees of freedom exceeds 20.5 with probability 0.001.
    assert!(statistic < 20.5, "{statistic}");
}

#[test]
fn a_search_that_never_began_gives_as_many_results_as_are_wanted() {
    let search = BeamSearch::<usize>::new(settings(3, 1), 5);
    let found = search.finish(2, |beam| beam);
    assert_eq!(found, [(0.0, 0), (0.0, 1)]);
}

#[test]
fn rows_without_a_distribution_are_errors() {
    let search = BeamSearch::<()>::new(settings(2, 1), 5);
    let refused = |row: &[f32]| {
        let error = search.continuations([row, row].into_iter(), 0).unwrap_err();
        error.to_string()
    };
    assert!(refused(&[0.0, f32::NAN]).contains("the score of token 1 is NaN"));
    assert!(refused(&[f32::NEG_INFINITY; 2]).contains("every token was removed"));
}
