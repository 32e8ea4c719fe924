//! The CPU's attention and its cache against the operations' references.

use decant::{
    exec::{Activations, Cpu, Executor, Reference, TapeId},
    ops::{Attention, BufferId, CacheSpec, CacheType, Op, Pairing, RotaryStore, Rotation},
    tape::Step,
};
use pollster::block_on;

use crate::support::{
    attention::{self, Case, cache, tolerance},
    close::assert_close,
    scene::{Scene, plain_step},
};

fn check(case: &Case) {
    attention::check(&mut Cpu::new(Activations::F32), "cpu", case);
}

fn case(heads: usize, cache: CacheSpec, lengths: &[(usize, usize)]) -> Case {
    Case {
        heads,
        cache,
        lengths: lengths.to_vec(),
        scale: 1.0,
        window: None,
        cap: None,
    }
}

#[test]
fn heads_and_cache_types() {
    for dtype in [CacheType::F32, CacheType::F16] {
        for (heads, kv_heads, head_dim) in [
            (1, 1, 4),
            (4, 2, 12),
            (3, 3, 5),
            (6, 2, 32),
            (9, 3, 64),
            (7, 1, 16),
            (10, 2, 8),
            (2, 2, 128),
            (1, 1, 256),
        ] {
            for page in [4, 32] {
                let cache = cache(kv_heads, head_dim, dtype, page);
                check(&case(heads, cache, &[(0, 1), (9, 1), (3, 5)]));
            }
        }
    }
}

#[test]
fn contexts_around_pages() {
    for past in [0, 1, 6, 7, 8, 9, 15, 16, 17, 63, 64, 65, 200] {
        for now in [1, 3, 18] {
            let cache = cache(3, 64, CacheType::F32, 16);
            check(&case(9, cache, &[(past, now)]));
        }
    }
}

/// Where each key meets few queries, halves are not made numbers first.
#[test]
fn one_row_of_each_sequence() {
    for (heads, kv_heads, head_dim) in [(9, 3, 64), (4, 1, 12), (5, 1, 16), (3, 3, 5)] {
        let cache = cache(kv_heads, head_dim, CacheType::F16, 8);
        for window in [None, Some(1), Some(7), Some(70)] {
            let lengths = [(0, 1), (9, 1), (70, 1), (7, 1)];
            check(&Case {
                window,
                ..case(heads, cache, &lengths)
            });
        }
        // Queries beyond what the difference of the exponents leaves room for.
        for scale in [6e4, 7e4, 1e6] {
            check(&Case {
                scale,
                ..case(heads, cache, &[(40, 1), (3, 1)])
            });
        }
    }
}

#[test]
fn prefill_in_chunks_of_ragged_sequences() {
    let lengths = [(0, 40), (31, 1), (7, 17), (0, 1), (64, 3)];
    for (heads, kv_heads) in [(6, 2), (2, 2), (5, 1)] {
        check(&case(
            heads,
            cache(kv_heads, 32, CacheType::F16, 8),
            &lengths,
        ));
    }
}

#[test]
fn large_scores_neither_overflow_nor_vanish() {
    let case = Case {
        scale: 1000.0,
        ..case(3, cache(3, 64, CacheType::F32, 16), &[(40, 6)])
    };
    check(&case);
}

#[test]
fn what_a_row_does_not_see_has_no_weight() {
    attention::check_masks(&mut Reference::new(), "reference");
    attention::check_masks(&mut Cpu::new(Activations::F32), "cpu");
}

#[test]
fn windows_and_caps() {
    for window in [1, 2, 4, 5, 16, 17, 63, 64, 65, 66, 1000] {
        for cap in [None, Some(1.5)] {
            let lengths = [(64, 1), (3, 5), (0, 2), (5, 30)];
            check(&Case {
                window: Some(window),
                cap,
                ..case(6, cache(2, 16, CacheType::F32, 4), &lengths)
            });
        }
    }
    check(&Case {
        scale: 1000.0,
        cap: Some(50.0),
        ..case(3, cache(3, 64, CacheType::F32, 16), &[(40, 6)])
    });
}

/// A scene of one layer with inputs `q`, `k` and `v`, and its attention.
fn scene(rows: usize, cache: CacheSpec, inputs: [&[f32]; 3], rotation: (Pairing, &[f32])) -> Scene {
    let mut scene = Scene::new(rows, 1);
    scene.cache = cache;
    let wide = inputs[0].len() / rows;
    let columns = [wide, cache.width(), cache.width()];
    let [q, k, v] = [0, 1, 2].map(|i| scene.input(["q", "k", "v"][i], columns[i], inputs[i]));
    let (pairing, angles) = rotation;
    let dims = angles.len() / (rows + 8);
    let table = scene.values(rows + 8, angles);
    scene.op(Op::RotaryStore(RotaryStore {
        q,
        k,
        v,
        rotation: Some(Rotation {
            table,
            pairing,
            dims,
        }),
        layer: 0,
        heads: wide / cache.head_dim,
    }));
    let out = scene.buffer("out", wide);
    scene.op(Op::Attention(Attention {
        q,
        layer: 0,
        heads: wide / cache.head_dim,
        scale: 1.0,
        window: None,
        cap: None,
        out,
    }));
    scene.tape.logits = out;
    scene
}

#[test]
fn rotation_of_both_pairings_and_rows_of_angles() {
    for pairing in [Pairing::Halves, Pairing::Neighbours] {
        for (heads, kv_heads, head_dim, dims) in [
            (1, 1, 2, 2),
            (4, 2, 12, 12),
            (3, 3, 5, 4),
            (3, 1, 7, 2),
            (2, 2, 80, 32),
        ] {
            let rows = 5;
            let cache = cache(kv_heads, head_dim, CacheType::F32, 4);
            let mut random = Scene::new(1, 3).random;
            let [q, k, v] = [heads, kv_heads, kv_heads]
                .map(|heads| random.values(rows * heads * head_dim, 1.0));
            let angles = random.values((rows + 8) * dims, 1.0);
            let scene = scene(rows, cache, [&q, &k, &v], (pairing, &angles));
            let step = Step {
                tables: vec![vec![7, 2]],
                // As if the sequence's first row of angles were the fourth.
                angles: vec![3],
                ..plain_step(rows)
            };
            let mut scene = scene;
            scene.pages_per_sequence = 2;
            block_on(async {
                let (mut reference, mut cpu) = (Reference::new(), Cpu::new(Activations::F32));
                scene.load(&mut reference).await.unwrap();
                scene.load(&mut cpu).await.unwrap();
                for buffer in [BufferId(0), scene.tape.logits] {
                    let expected = scene.run(&reference, &step, buffer).await.unwrap();
                    let actual = scene.run(&cpu, &step, buffer).await.unwrap();
                    // Angles are not on a circle here, so keys and queries are up to twice as large.
                    let allowed = 4.0 * tolerance(&CacheType::F32, head_dim, rows, 1.0, None);
                    let what = format!("{pairing:?} {heads} heads of {head_dim}, {buffer:?}");
                    assert_close(&what, &expected, &actual, &vec![allowed; expected.len()]);
                }
            });
        }
    }
}

#[test]
fn nan_is_neither_hidden_nor_spread_to_rows_that_do_not_see_it() {
    for dtype in [CacheType::F32, CacheType::F16] {
        for [bad_key, bad_value] in [[true, false], [false, true]] {
            let (mut keys, mut values) = ([0.5; 24], [2.0; 24]);
            if bad_key {
                keys[9] = f32::NAN;
            }
            if bad_value {
                values[8..16].fill(f32::NAN);
            }
            let angles = [1.0, 0.0].repeat(11);
            let inputs = [&[1.0; 24][..], &keys, &values];
            let mut scene = scene(3, cache(1, 8, dtype, 4), inputs, (Pairing::Halves, &angles));
            scene.pages_per_sequence = 1;
            let step = Step {
                tables: vec![vec![3]],
                ..plain_step(3)
            };
            let out = scene.tape.logits;
            let found = block_on(async {
                let mut cpu = Cpu::new(Activations::F32);
                scene.load(&mut cpu).await.unwrap();
                scene.run(&cpu, &step, out).await.unwrap()
            });
            assert_eq!(found[..8], [2.0; 8], "the row before the NaN");
            assert!(found[8..].iter().all(|v| v.is_nan()), "{found:?}");
        }
    }
}

#[test]
fn a_copied_page_holds_what_the_first_did() {
    for dtype in [CacheType::F32, CacheType::F16] {
        let mut random = Scene::new(1, 5).random;
        let [q, k, v] = [4, 2, 2].map(|heads| random.values(6 * heads * 12, 1.0));
        let angles = [1.0, 0.0].repeat(14);
        let inputs = [&q[..], &k, &v];
        let mut scene = scene(
            6,
            cache(2, 12, dtype, 4),
            inputs,
            (Pairing::Halves, &angles),
        );
        scene.pages_per_sequence = 2;
        let out = scene.tape.logits;
        let step = |tokens: std::ops::Range<u32>, table: [u32; 2]| Step {
            tokens: tokens.clone().collect(),
            positions: tokens.clone().collect(),
            slots: vec![0; tokens.len()],
            tables: vec![table.to_vec()],
            ..Step::default()
        };
        block_on(async {
            let mut cpu = Cpu::new(Activations::F32);
            scene.load(&mut cpu).await.unwrap();
            cpu.forward(TapeId(0), &step(0..5, [9, 11])).await.unwrap();
            cpu.copy_page(9, 30).unwrap();
            cpu.copy_page(11, 31).unwrap();
            let first = scene.run(&cpu, &step(5..6, [9, 11]), out).await.unwrap();
            let copy = scene.run(&cpu, &step(5..6, [30, 31]), out).await.unwrap();
            assert_eq!(first, copy);
            let other = scene.run(&cpu, &step(5..6, [30, 32]), out).await.unwrap();
            assert_ne!(first, other);
        });
    }
}
