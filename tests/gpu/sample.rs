//! Choosing tokens on the device against the host's processors and selection: runs of several steps over a
//! model that is a table are chains that the host can follow.

use decant::exec::{
    Executor, TapeId,
    sample::{Change, Choice, Edit, Row, Run, When},
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
    // 5,000 tokens, all of them probable; only the first rows of the table are reached.
    let vocabulary = 5000;
    let mut random = Random(6);
    let mut rows = random.values(8 * vocabulary, 0.5);
    // Every other token is out of the question, so that chains stay in the first eight rows.
    for row in rows.chunks_mut(vocabulary) {
        row[0] = 20.0;
    }
    let mut gpu = match Chain::new(vocabulary, rows) {
        Some(chain) => chain,
        None => return,
    };
    gpu.table.truncate(8 * vocabulary);
    for (top_k, p) in [(0, Some(0.999)), (4500, None), (4900, Some(0.98))] {
        for seed in 0..3 {
            let call = Call::filtered(seed, top_k, p, None);
            gpu.check("many", &call, &[vec![1, 2], vec![3, 4], vec![5, 6]], 1);
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
        assert_eq!(block_on(found).unwrap(), expected, "{:?}", call.sampler);
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
    let run = |rows: &[Row], steps, step: &decant::tape::Step| {
        let run = Run {
            sampler: &call.sampler,
            rows,
            steps,
            resume: false,
        };
        block_on(chain.gpu.sample(TapeId(0), step, &run))
    };
    let one = step(std::slice::from_ref(&ids), 0);
    assert!(run(&[row], 1, &one).is_ok());
    assert!(run(&[row], POSITIONS - 1, &one).is_ok());
    // No position for the last step; no row for the output; a row that is no output.
    assert!(run(&[row], POSITIONS, &one).is_err());
    assert!(run(&[], 1, &one).is_err());
    let mut two = step(&[ids.clone(), ids.clone()], 0);
    two.outputs = vec![1];
    assert!(run(&[row], 1, &two).is_ok());
    assert!(run(&[row], 2, &two).is_err());
}
