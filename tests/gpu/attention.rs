//! The forms of attention against their reference, over a cache filled by earlier steps.

use decant::{
    exec::gpu::GpuOptions,
    ops::{Attention, CacheType, Op, Pairing, RotaryStore, Rotation},
    tape::Step,
};
use pollster::block_on;

use crate::{
    gpu, only, shared,
    support::{
        attention::{self, Case, cache},
        scene::Scene,
    },
};

pub const FORMS: [&str; 4] = [
    "attention",
    "attention_split",
    "attention_broadcast",
    "attention_workgroup",
];

fn check(options: GpuOptions, case: &Case) {
    let Some(mut gpu) = shared(options) else {
        return;
    };
    attention::check(&mut *gpu, &format!("{:?}", options.forms), case);
}

#[test]
fn every_form_over_heads_and_cache_types() {
    for form in FORMS {
        for dtype in [CacheType::F32, CacheType::F16] {
            for (heads, kv_heads, head_dim) in [
                (1, 1, 4),
                (4, 2, 12),
                (3, 3, 5),
                (6, 2, 32),
                (9, 3, 64),
                (7, 1, 16),
                (2, 1, 96),
                (2, 2, 128),
                (1, 1, 256),
            ] {
                let case = Case {
                    heads,
                    cache: cache(kv_heads, head_dim, dtype, 4),
                    lengths: vec![(0, 1), (9, 1), (3, 5)],
                    scale: 1.0,
                    window: None,
                    cap: None,
                };
                check(only(form), &case);
            }
        }
    }
}

#[test]
fn contexts_around_pages_and_parts() {
    for form in FORMS {
        for past in [0, 1, 15, 16, 17, 63, 64, 65, 200] {
            let case = Case {
                heads: 9,
                cache: cache(3, 64, CacheType::F32, 16),
                lengths: vec![(past, 1)],
                scale: 1.0,
                window: None,
                cap: None,
            };
            check(only(form), &case);
        }
    }
}

#[test]
fn prefill_in_chunks_of_ragged_sequences() {
    for form in FORMS {
        let case = Case {
            heads: 6,
            cache: cache(2, 32, CacheType::F16, 8),
            lengths: vec![(0, 40), (31, 1), (7, 17), (0, 1), (64, 3)],
            scale: 1.0,
            window: None,
            cap: None,
        };
        check(only(form), &case);
    }
}

/// Rows side by side see nearly the same positions: some all of them do, some only the later ones.
#[test]
fn many_rows_of_one_sequence() {
    for form in FORMS {
        for (heads, cache) in [
            (2, cache(2, 16, CacheType::F16, 8)),
            (8, cache(2, 48, CacheType::F32, 4)),
            (9, cache(3, 64, CacheType::F16, 32)),
        ] {
            for (past, window, cap) in
                [(0, None, None), (22, Some(19), None), (51, None, Some(1.5))]
            {
                let case = Case {
                    heads,
                    cache,
                    lengths: vec![(past, 37)],
                    scale: 1.0,
                    window,
                    cap,
                };
                check(only(form), &case);
            }
        }
    }
}

#[test]
fn large_scores_neither_overflow_nor_vanish() {
    // Scores up to 64·1000 = 64,000 in magnitude: exp of any difference but 0 is 0 or infinite.
    for form in FORMS {
        let case = Case {
            heads: 3,
            cache: cache(3, 64, CacheType::F32, 16),
            lengths: vec![(40, 6)],
            scale: 1000.0,
            window: None,
            cap: None,
        };
        check(only(form), &case);
    }
}

#[test]
fn what_a_row_does_not_see_has_no_weight() {
    for form in FORMS {
        let Some(mut gpu) = shared(only(form)) else {
            return;
        };
        attention::check_masks(&mut *gpu, form);
    }
}

#[test]
fn windows_and_caps() {
    for form in FORMS {
        for window in [1, 2, 4, 5, 16, 17, 63, 64, 65, 66, 1000] {
            let case = Case {
                heads: 6,
                cache: cache(2, 16, CacheType::F32, 4),
                lengths: vec![(64, 1), (3, 5), (0, 2), (5, 30)],
                scale: 1.0,
                window: Some(window),
                cap: None,
            };
            check(only(form), &case);
            let cap = Some(1.5);
            check(only(form), &Case { cap, ..case });
        }
        // Scores far above the cap: all but equal, and finite.
        let case = Case {
            heads: 3,
            cache: cache(3, 64, CacheType::F32, 16),
            lengths: vec![(40, 6)],
            scale: 1000.0,
            window: None,
            cap: Some(50.0),
        };
        check(only(form), &case);
    }
}

#[test]
fn nan_is_not_hidden() {
    for form in FORMS {
        let Some(mut gpu) = gpu(only(form)) else {
            return;
        };
        for dim in [8, 16] {
            let mut scene = Scene::new(3, 1);
            scene.cache = cache(1, dim, CacheType::F32, 4);
            scene.pages_per_sequence = 1;
            let q = scene.input("q", dim, &vec![1.0; 3 * dim]);
            let mut keys = vec![0.5; 3 * dim];
            keys[dim + 1] = f32::NAN;
            let k = scene.input("k", dim, &keys);
            let v = scene.input("v", dim, &vec![2.0; 3 * dim]);
            let table = scene.values(4, &[1.0, 0.0].repeat(4));
            scene.op(Op::RotaryStore(RotaryStore {
                q,
                k,
                v,
                rotation: Some(Rotation {
                    table,
                    pairing: Pairing::Halves,
                    dims: 2,
                }),
                layer: 0,
                heads: 1,
            }));
            let out = scene.buffer("out", dim);
            scene.op(Op::Attention(Attention {
                q,
                layer: 0,
                heads: 1,
                scale: 1.0,
                window: None,
                cap: None,
                out,
            }));
            let step = Step {
                tables: vec![vec![3]],
                ..crate::support::scene::plain_step(3)
            };
            let found = block_on(async {
                scene.load(&mut gpu).await.unwrap();
                scene.run(&gpu, &step, out).await.unwrap()
            });
            assert_eq!(
                found[..dim],
                vec![2.0; dim],
                "{form}: the row before the NaN"
            );
            assert!(found[dim..].iter().all(|v| v.is_nan()), "{form}: {found:?}");
        }
    }
}
