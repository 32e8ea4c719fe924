//! Choosing tokens on the device against the host's processors and selection: runs of several steps over a
//! model that is a table are chains that the host can follow.

use decant::exec::{
    Executor, TapeId,
    sample::{Change, Choice, Edit, MOST_STEPS, Row, Run, When},
};
use pollster::block_on;

use crate::{
    chain::{Call, Chain, POSITIONS, always, step},
    support::random::Random,
};

/// Prompts of two tokens, the second of which has one before it already.
fn prompts(random: &mut Random, vocabulary: usize) -> Vec<Vec<u32>> {
    let mut id = || random.below(vocabulary) as u32;
    vec![vec![id(), id()], vec![id(), id(), id()], vec![id(), id()]]
}

fn table(random: &mut Random, vocabulary: usize, scale: f32) -> Vec<f32> {
    random.values(vocabulary * vocabulary, scale)
}

#[test]
fn greedy_and_plain_draws_over_tails() {
    // Around the slices of a row and the invocations of a workgroup.
    for vocabulary in [1, 2, 15, 16, 17, 63, 64, 65, 129, 1000] {
        let mut random = Random(vocabulary as u64);
        let table = table(&mut random, vocabulary, 6.0);
        let Some(chain) = Chain::new(vocabulary, table) else {
            return;
        };
        let prompts = prompts(&mut random, vocabulary);
        for steps in [1, 2, 13] {
            chain.check("greedy", &Call::new(vec![], None), &prompts, steps);
            chain.check(
                "greedy, one",
                &Call::new(vec![], None),
                &prompts[..1],
                steps,
            );
            for seed in [0, 1, (1 << 53) - 1] {
                chain.check("drawn", &Call::new(vec![], Some(seed)), &prompts, steps);
            }
        }
    }
}

#[test]
fn every_filter_alone_and_together() {
    for (vocabulary, scale) in [(40, 4.0), (700, 8.0)] {
        let mut random = Random(vocabulary as u64);
        let Some(chain) = Chain::new(vocabulary, table(&mut random, vocabulary, scale)) else {
            return;
        };
        let filters = [
            (1, None, None),
            (2, None, None),
            (20, None, None),
            (vocabulary, None, None),
            (0, Some(0.0), None),
            (0, Some(0.3), None),
            (0, Some(0.95), None),
            (0, None, Some(0.05)),
            (0, None, Some(1.0)),
            (10, Some(0.6), None),
            (30, Some(0.9), Some(0.1)),
            (0, Some(0.99), Some(0.001)),
        ];
        for (top_k, top_p, min_p) in filters {
            for seed in [3, 4] {
                let call = Call::filtered(seed, top_k, top_p, min_p);
                let prompts = prompts(&mut random, vocabulary);
                let what = format!("{vocabulary}: {top_k} {top_p:?} {min_p:?}");
                chain.check(&what, &call, &prompts, 9);
            }
        }
    }
}

#[test]
fn filters_without_a_seed_leave_the_best() {
    let vocabulary = 40;
    let mut random = Random(12);
    let Some(chain) = Chain::new(vocabulary, table(&mut random, vocabulary, 1.0)) else {
        return;
    };
    let mut call = Call::filtered(1, 20, Some(0.9), Some(0.01));
    call.sampler.seed = None;
    let prompts = prompts(&mut random, vocabulary);
    chain.check("no seed", &call, &prompts, 9);
}

#[test]
fn many_tokens_of_the_least_weight_count_together() {
    // Sixty thousand tokens of 1.9 · 2⁻³¹ of the best one's probability each, and one token whose own share
    // with theirs is just more than may be removed, but would not be with half of theirs.
    let (vocabulary, unit) = (60_000, 2f64.powi(-31));
    let mut row = vec![(1.9 * unit).ln() as f32; vocabulary];
    (row[0], row[1], row[2]) = (0.0, -1.0, 0.0);
    let rest = (vocabulary - 3) as f64 * unit;
    let whole = 2.0 + (-1f64).exp() + 1.9 * rest;
    let removable = ((-1f64).exp() + 1.5 * rest) / whole;
    let Some(chain) = Chain::new(vocabulary, row.repeat(3)) else {
        return;
    };
    for seed in 0..12 {
        let call = Call::filtered(seed, 0, Some(1.0 - removable), None);
        chain.check("rest", &call, &[vec![0, 0], vec![0, 1], vec![0, 2]], 1);
    }
}

#[test]
fn an_answer_that_has_a_token_more_than_65535_times() {
    let Some(chain) = Chain::new(2, vec![1.0, 0.0, 1.0, 0.0]) else {
        return;
    };
    let mut ids = vec![0; 70_001];
    ids[0] = 1;
    let row = Row {
        sequence: 0,
        ids: &ids,
        prompt_length: 1,
        new_tokens: 70_000,
        limit: 80_000,
    };
    // 0.7 for all of them, 0.04 for those above 65,536.
    for (penalty, expected) in [(1e-5, 0), (2e-5, 1)] {
        let call = Call::new(vec![always(Change::Frequency(penalty))], None);
        let run = Run {
            sampler: &call.sampler,
            rows: &[row],
            steps: 1,
            resume: false,
        };
        let mut step = step(&[vec![1, 0]], 0);
        step.positions = vec![0];
        let found = block_on(chain.gpu.sample(TapeId(0), &step, &run)).unwrap();
        assert_eq!(found[0].choice, Choice::Token(expected), "{penalty}");
    }
}

#[test]
fn equal_scores_at_a_threshold() {
    // Four levels of 12 equal scores each: every threshold falls among equal ones.
    let vocabulary = 48;
    let mut random = Random(5);
    let table: Vec<f32> = (0..vocabulary * vocabulary)
        .map(|_| random.below(4) as f32 - 1.0)
        .collect();
    let Some(chain) = Chain::new(vocabulary, table) else {
        return;
    };
    for seed in 0..6 {
        let prompts = prompts(&mut random, vocabulary);
        chain.check("greedy", &Call::new(vec![], None), &prompts, 5);
        for top_k in [1, 5, 13, 30] {
            chain.check(
                "top_k",
                &Call::filtered(seed, top_k, None, None),
                &prompts,
                5,
            );
        }
        for p in [0.0, 0.11, 0.37, 0.62, 0.9] {
            chain.check(
                "top_p",
                &Call::filtered(seed, 0, Some(p), None),
                &prompts,
                5,
            );
            chain.check("both", &Call::filtered(seed, 9, Some(p), None), &prompts, 5);
        }
    }
}

#[test]
fn more_candidates_than_the_list_holds() {
    // 5,000 tokens, all of them about as probable, so that one in five draws is none of the 4,096 that a
    // list holds. A single step stays in the first rows of the table.
    let vocabulary = 5000;
    let mut random = Random(6);
    let rows = random.values(8 * vocabulary, 0.5);
    let Some(chain) = Chain::new(vocabulary, rows) else {
        return;
    };
    for (top_k, p) in [(0, Some(0.999)), (4500, None), (4900, Some(0.98))] {
        for seed in 0..8 {
            let call = Call::filtered(seed, top_k, p, None);
            chain.check("many", &call, &[vec![1, 2], vec![3, 4], vec![5, 6]], 1);
        }
    }
}

#[test]
fn edits_in_their_order_and_under_their_conditions() {
    let vocabulary = 90;
    let mut random = Random(8);
    let Some(chain) = Chain::new(vocabulary, table(&mut random, vocabulary, 3.0)) else {
        return;
    };
    let prompts = prompts(&mut random, vocabulary);
    let when = |when, change| Edit { change, when };
    let edits: Vec<Vec<Edit>> = vec![
        vec![always(Change::Repetition(1.7))],
        vec![
            always(Change::Repetition(0.5)),
            always(Change::Temperature(0.3)),
        ],
        vec![
            always(Change::Frequency(0.4)),
            always(Change::Presence(-0.7)),
        ],
        vec![
            always(Change::Add(vec![(80, 3.0), (3, 5.5), (17, -100.0)])),
            always(Change::Repetition(1.3)),
            always(Change::Temperature(1.9)),
        ],
        vec![always(Change::Remove((0..80).rev().collect()))],
        vec![when(
            When::NewTokensBelow(4),
            Change::Remove((20..90).collect()),
        )],
        vec![when(
            When::LengthBelow(6),
            Change::Remove((0..70).collect()),
        )],
        vec![when(When::NewTokensAre(3), Change::Force(vec![5, 4]))],
        vec![when(When::LengthIs(5), Change::Force(vec![89]))],
        vec![when(When::Last, Change::Force(vec![0]))],
    ];
    for edits in edits {
        let what = format!("{edits:?}");
        let mut greedy = Call::new(edits.clone(), None);
        greedy.limit = 8;
        chain.check(&what, &greedy, &prompts, 8);
        let mut drawn = Call::filtered(9, 25, Some(0.9), None);
        drawn.sampler.edits = edits;
        drawn.limit = 8;
        chain.check(&what, &drawn, &prompts, 8);
    }
}

#[test]
fn rows_that_offer_no_token() {
    let nan = f32::NAN;
    let rows = [
        [0.0, nan, 1.0],
        [f32::INFINITY, 0.0, 0.0],
        [f32::NEG_INFINITY; 3],
    ];
    let Some(chain) = Chain::new(3, rows.concat()) else {
        return;
    };
    let expected = [
        Choice::Incomparable,
        Choice::Incomparable,
        Choice::NothingLeft,
    ];
    let sequences = [vec![0, 0], vec![0, 1], vec![0, 2]];
    for call in [
        Call::new(vec![], None),
        Call::new(vec![], Some(1)),
        Call::filtered(1, 2, Some(0.5), None),
    ] {
        let rows: Vec<Row> = sequences
            .iter()
            .map(|ids| Row {
                sequence: 0,
                ids,
                prompt_length: 2,
                new_tokens: 0,
                limit: 9,
            })
            .collect();
        let run = Run {
            sampler: &call.sampler,
            rows: &rows,
            steps: 1,
            resume: false,
        };
        let found = chain.gpu.sample(TapeId(0), &step(&sequences, 0), &run);
        let found = block_on(found).unwrap().into_iter().map(|pick| pick.choice);
        assert_eq!(found.collect::<Vec<_>>(), expected, "{:?}", call.sampler);
    }
}

#[test]
fn a_run_costs_one_submit_and_reads_little() {
    let mut random = Random(2);
    let Some(chain) = Chain::new(50, table(&mut random, 50, 3.0)) else {
        return;
    };
    for (call, dispatches) in [
        (Call::new(vec![], None), 2),
        (Call::filtered(1, 5, Some(0.9), None), 4),
    ] {
        let sequences = [vec![1, 2], vec![3, 4]];
        chain.check("warm-up", &call, &sequences, 8);
        let (before, bytes) = (chain.gpu.counters(), chain.gpu.allocated_bytes());
        chain.check("counted", &call, &sequences, 8);
        let after = chain.gpu.counters();
        assert_eq!(after.submits - before.submits, 2);
        assert_eq!(after.forwards - before.forwards, 8);
        // A dispatch each for the table and the selected rows.
        let found = after.dispatches - before.dispatches;
        assert_eq!(found, 8 * (2 + dispatches));
        assert_eq!(after.bytes_read - before.bytes_read, 8 * 2 * 8);
        assert_eq!(chain.gpu.allocated_bytes(), bytes);
    }
}

#[test]
fn a_run_that_does_not_fit_is_refused() {
    let Some(chain) = Chain::new(4, vec![0.0; 16]) else {
        return;
    };
    let ids = vec![0, 1];
    let row = Row {
        sequence: 0,
        ids: &ids,
        prompt_length: 2,
        new_tokens: 0,
        limit: 9,
    };
    let call = Call::new(vec![], None);
    let run = |rows: &[Row], steps, resume, step: &decant::tape::Step| {
        let run = Run {
            sampler: &call.sampler,
            rows,
            steps,
            resume,
        };
        block_on(chain.gpu.sample(TapeId(0), step, &run))
    };
    let one = step(std::slice::from_ref(&ids), 0);
    let later = step(std::slice::from_ref(&ids), 1);
    let refused = |rows: &[Row], steps, resume, step: &decant::tape::Step| {
        let before = (chain.gpu.counters(), chain.gpu.epoch());
        assert!(run(rows, steps, resume, step).is_err());
        let after = (chain.gpu.counters(), chain.gpu.epoch());
        assert_eq!(before, after, "nothing was sent");
    };
    // There is no run to resume.
    refused(&[row], 1, true, &one);
    assert!(run(&[row], 1, false, &one).is_ok());
    assert!(run(&[row], POSITIONS - 1, false, &one).is_ok());
    // No position for the last step; no step, or more than there can be; no row for the output; a row that
    // is no output.
    refused(&[row], POSITIONS, false, &one);
    refused(&[row], 0, false, &one);
    refused(&[row], MOST_STEPS + 1, false, &one);
    refused(&[], 1, false, &one);
    let mut two = step(&[ids.clone(), ids.clone()], 0);
    two.outputs = vec![1];
    assert!(run(&[row], 1, false, &two).is_ok());
    refused(&[row], 2, false, &two);
    // What goes on after a run: its outputs alone, and as many.
    refused(&[row], 1, true, &two);
    two.outputs = vec![0, 1];
    refused(&[row, row], 1, true, &two);
    assert!(run(&[row], 1, true, &later).is_ok());
    // Two rows of one sequence would both be its next position.
    assert!(run(&[row, row], 2, false, &two).is_ok());
    two.slots = vec![1, 1];
    assert!(run(&[row, row], 1, false, &two).is_ok());
    refused(&[row, row], 2, false, &two);
    // A step in between took the place of the tokens.
    assert!(run(&[row], 1, false, &one).is_ok());
    block_on(chain.gpu.forward(TapeId(0), &one)).unwrap();
    refused(&[row], 1, true, &later);
}
