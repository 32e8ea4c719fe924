//! The forms of processors on the device that look at probabilities or at the order of tokens, and what is
//! reported beside a choice, against the host.

use decant::exec::sample::{Change, Edit, Sampler, When};

use crate::{
    chain::{Call, Chain, always},
    support::random::Random,
};

fn chain(vocabulary: usize, scale: f32, seed: u64) -> Option<(Chain, Random)> {
    let mut random = Random(seed);
    let table = random.values(vocabulary * vocabulary, scale);
    Some((Chain::new(vocabulary, table)?, random))
}

fn prompts(random: &mut Random, vocabulary: usize) -> Vec<Vec<u32>> {
    let mut id = || random.below(vocabulary) as u32;
    vec![vec![id(), id()], vec![id(), id(), id()], vec![id(), id()]]
}

#[test]
fn filters_by_probability_and_entropy() {
    let alone: &[&[(&str, f64)]] = &[
        &[("typical_p", 0.02)],
        &[("typical_p", 0.4)],
        &[("typical_p", 0.95)],
        &[("epsilon_cutoff", 0.001)],
        &[("epsilon_cutoff", 0.03)],
        // More than any token has: the best stays.
        &[("epsilon_cutoff", 0.999)],
        &[("eta_cutoff", 0.0005)],
        &[("eta_cutoff", 0.02)],
        &[("eta_cutoff", 0.9)],
    ];
    let together: &[&[(&str, f64)]] = &[
        &[("top_k", 15.0), ("typical_p", 0.5)],
        &[("top_p", 0.9), ("min_p", 0.02), ("typical_p", 0.7)],
        &[("top_k", 12.0), ("epsilon_cutoff", 0.05)],
        &[
            ("min_p", 0.01),
            ("epsilon_cutoff", 0.01),
            ("eta_cutoff", 0.05),
        ],
        &[("top_k", 20.0), ("top_p", 0.8), ("eta_cutoff", 0.04)],
    ];
    for (vocabulary, scale) in [(40, 4.0), (700, 8.0)] {
        let Some((chain, mut random)) = chain(vocabulary, scale, vocabulary as u64) else {
            return;
        };
        for fields in alone.iter().chain(together) {
            for seed in [3, 4] {
                let mut call = Call::of(seed, fields);
                let prompts = prompts(&mut random, vocabulary);
                let what = format!("{vocabulary}: {fields:?}");
                chain.check(&what, &call, &prompts, 9);
                call.sampler.best = 7;
                chain.check(&what, &call, &prompts[..1], 9);
            }
        }
    }
}

#[test]
fn filters_by_entropy_of_more_tokens_than_the_list_holds() {
    let vocabulary = 5000;
    let rows = Random(6).values(8 * vocabulary, 0.5);
    let Some(chain) = Chain::new(vocabulary, rows) else {
        return;
    };
    let prompts = [vec![1, 2], vec![3, 4], vec![5, 6]];
    for fields in [
        [("typical_p", 0.93)],
        [("eta_cutoff", 0.0002)],
        [("epsilon_cutoff", 0.0001)],
    ] {
        for seed in 0..4 {
            chain.check("many", &Call::of(seed, &fields), &prompts, 1);
        }
    }
}

#[test]
fn edits_that_follow_the_order_of_tokens() {
    let vocabulary = 24;
    let Some((chain, mut random)) = chain(vocabulary, 2.0, 5) else {
        return;
    };
    let after = |beginning: &[u32], change| Edit {
        change,
        when: When::After(beginning.to_vec()),
    };
    let likely = |id: u32| Change::Add(vec![(id, 9.0)]);
    let edits: Vec<Vec<Edit>> = vec![
        vec![always(Change::NoRepeat(1))],
        vec![always(Change::NoRepeat(2))],
        // A longer one than there are tokens at first.
        vec![
            always(Change::NoRepeat(5)),
            always(Change::Add(vec![(3, 8.0)])),
        ],
        // A cycle of three, but for what breaks it.
        vec![
            always(Change::Add(vec![(7, 4.0)])),
            after(&[7], likely(8)),
            after(&[7, 8], likely(9)),
            after(&[8, 9], Change::Remove(vec![7])),
        ],
        vec![
            after(&[0; 30], Change::Force(vec![1])),
            always(Change::Presence(0.5)),
        ],
        vec![always(Change::Grow {
            ids: vec![20, 3, 11],
            start: 2,
            factor: 1.25,
        })],
        vec![
            always(Change::Remove(vec![3])),
            always(Change::Grow {
                ids: vec![3, 5],
                start: 0,
                factor: 1e30,
            }),
            always(Change::Temperature(2.0)),
        ],
        vec![Edit {
            change: Change::Force(vec![6]),
            when: When::Begins(1),
        }],
    ];
    for edits in edits {
        let what = format!("{edits:?}");
        for prompt_length in [1, 2] {
            let mut prompts = prompts(&mut random, vocabulary);
            for ids in &mut prompts {
                ids[0] = 5;
                ids.rotate_left(2 - prompt_length);
                ids.truncate(ids.len() + prompt_length - 2);
            }
            let mut greedy = Call::new(edits.clone(), None);
            greedy.prompt_length = prompt_length;
            chain.check(&what, &greedy, &prompts, 14);
            let mut drawn = Call::filtered(9, 12, Some(0.9), None);
            drawn.sampler.edits.clone_from(&edits);
            drawn.prompt_length = prompt_length;
            chain.check(&what, &drawn, &prompts, 14);
        }
    }
}

#[test]
fn the_best_tokens_are_reported() {
    for (vocabulary, scale) in [(3, 2.0), (90, 3.0), (1000, 6.0)] {
        let Some((chain, mut random)) = chain(vocabulary, scale, 7) else {
            return;
        };
        let prompts = prompts(&mut random, vocabulary);
        let penalty = || {
            vec![
                always(Change::Repetition(1.3)),
                always(Change::Temperature(0.7)),
            ]
        };
        for best in [1, 5, 64] {
            for search in [false, true] {
                let mut calls = vec![Call::new(vec![], None), Call::new(penalty(), None)];
                if !search {
                    calls.push(Call::new(penalty(), Some(3)));
                    calls.push(Call::filtered(3, 12, None, None));
                    calls.push(Call::filtered(3, 0, Some(0.7), Some(0.02)));
                }
                for mut call in calls {
                    (call.sampler.best, call.sampler.search) = (best, search);
                    let what = format!("{best} of {vocabulary}: {:?}", call.sampler);
                    chain.check(&what, &call, &prompts, 6);
                }
            }
        }
    }
}

#[test]
fn equal_tokens_are_reported_in_the_order_of_their_ids() {
    let vocabulary = 30;
    let mut random = Random(2);
    let mut level = || random.below(3) as f32;
    let table = (0..vocabulary * vocabulary).map(|_| level()).collect();
    let Some(chain) = Chain::new(vocabulary, table) else {
        return;
    };
    let mut call = Call::new(vec![], None);
    call.sampler.best = 20;
    chain.check("equal", &call, &[vec![1, 2], vec![3, 4]], 5);
}

#[test]
fn what_a_sampler_needs() {
    let sampler = |top_k, min_p, best, search, seed| Sampler {
        top_k,
        min_p,
        best,
        search,
        seed,
        ..Sampler::default()
    };
    // Reports alone, drawn or not; what is drawn for a report may be any; filters.
    assert_eq!(sampler(0, 0.0, 5, false, Some(1)).needed(), 5);
    assert_eq!(sampler(0, 0.0, 5, true, None).needed(), 5);
    assert_eq!(sampler(0, 0.0, 5, true, Some(1)).needed(), 0);
    assert_eq!(sampler(9, 0.0, 5, true, Some(1)).needed(), 9);
    assert_eq!(sampler(0, 0.1, 5, false, None).needed(), 0);
}
