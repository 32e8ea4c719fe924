//! `rotary_store.wgsl` against its reference: queries in place, keys and values through the cache.
//!
//! What the cache holds shows in attention: the value of a lone position comes back as it was stored,
//! and a key shows in the scores. `attention.rs` sweeps those; here the cache's layout is at stake.

use decant::{
    exec::Reference,
    ops::{Attention, BufferId, CacheSpec, CacheType, Op, Pairing, RotaryStore, Rotation},
    tape::Step,
};
use pollster::block_on;

use crate::{
    gpu, only,
    support::{attention::tolerance, close::assert_close, scene::Scene},
};

struct Case {
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    /// Values that are rotated; none at all if 0.
    rotary_dims: usize,
    pairing: Pairing,
    dtype: CacheType,
}

const POSITIONS: usize = 40;

/// A scene with rotated queries and, from the cache, the values of each row's own position.
fn scene(case: &Case, rows: usize) -> (Scene, BufferId, BufferId) {
    let mut scene = Scene::new(rows, (rows * 100 + case.head_dim) as u64);
    scene.cache = CacheSpec {
        layers: 2,
        kv_heads: case.kv_heads,
        head_dim: case.head_dim,
        conv_layers: 0,
        conv_width: 1,
        dtype: case.dtype,
        page_size: 4,
        pages: 32,
    };
    scene.sequences = 3;
    scene.pages_per_sequence = POSITIONS / 4;
    let (wide, narrow) = (case.heads * case.head_dim, scene.cache.width());
    let [q, k, v] = [("q", wide), ("k", narrow), ("v", narrow)].map(|(name, columns)| {
        let values = scene.random.values(rows * columns, 1.0);
        scene.input(name, columns, &values)
    });
    // Angles at random: positions far apart give any angle.
    let angles: Vec<f32> = (0..POSITIONS)
        .flat_map(|_| {
            let half = case.rotary_dims / 2;
            let angles = scene.random.values(half, 4.0);
            let (sines, cosines): (Vec<_>, Vec<_>) = angles.iter().map(|a| a.sin_cos()).unzip();
            [cosines, sines].concat()
        })
        .collect();
    let table = scene.values(
        POSITIONS,
        if angles.is_empty() {
            &[0.0; POSITIONS]
        } else {
            &angles
        },
    );
    scene.op(Op::RotaryStore(RotaryStore {
        q,
        k,
        v,
        rotation: (case.rotary_dims > 0).then_some(Rotation {
            table,
            pairing: case.pairing,
            dims: case.rotary_dims,
        }),
        layer: 1,
        heads: case.heads,
    }));
    let out = scene.buffer("out", wide);
    scene.op(Op::Attention(Attention {
        q,
        layer: 1,
        heads: case.heads,
        scale: 1.0,
        window: None,
        cap: None,
        out,
    }));
    (scene, q, out)
}

fn check(case: Case, rows: usize) {
    let Some(mut gpu) = gpu(only("rotary_store")) else {
        return;
    };
    let (scene, q, out) = scene(&case, rows);
    // Every row is a sequence's first position, and lies on a page of its own; then they go on from there.
    let step = Step {
        tokens: (0..rows as u32).collect(),
        positions: (0..rows as u32).map(|row| row / 3).collect(),
        slots: (0..rows as u32).map(|row| row % 3).collect(),
        outputs: Vec::new(),
        tables: (0..3)
            .map(|slot| {
                (0..POSITIONS as u32 / 4)
                    .map(|page| 31 - (page * 3 + slot))
                    .collect()
            })
            .collect(),
        // The third sequence turns by the angles of later positions.
        angles: vec![0, 0, 20],
    };
    block_on(async {
        let mut reference = Reference::new();
        scene.load(&mut reference).await.unwrap();
        scene.load(&mut gpu).await.unwrap();
        let name = format!(
            "{} heads of {}, {rows} rows, {:?}",
            case.heads, case.head_dim, case.dtype
        );
        let expected = scene.run(&reference, &step, q).await.unwrap();
        let actual = scene.run(&gpu, &step, q).await.unwrap();
        // Two products and a difference of magnitude 2 at most.
        let allowed = vec![2.0 * f64::from(f32::EPSILON); expected.len()];
        assert_close(&format!("queries of {name}"), &expected, &actual, &allowed);

        let expected = scene.run(&reference, &step, out).await.unwrap();
        let actual = scene.run(&gpu, &step, out).await.unwrap();
        let allowed = tolerance(&case.dtype, case.head_dim, rows, 1.0, None);
        assert_close(
            &format!("cache of {name}"),
            &expected,
            &actual,
            &vec![allowed; expected.len()],
        );
    });
}

#[test]
fn both_pairings_and_cache_types_over_tails() {
    for dtype in [CacheType::F32, CacheType::F16] {
        for pairing in [Pairing::Halves, Pairing::Neighbours] {
            for (heads, kv_heads, head_dim, rotary_dims) in [
                (1, 1, 2, 2),
                (4, 2, 12, 12),
                (3, 3, 5, 4),
                (3, 1, 7, 2),
                (2, 1, 6, 0),
                (9, 3, 64, 64),
                (2, 2, 80, 32),
            ] {
                for rows in [1, 4, 37] {
                    let case = Case {
                        heads,
                        kv_heads,
                        head_dim,
                        rotary_dims,
                        pairing,
                        dtype,
                    };
                    check(case, rows);
                }
            }
        }
    }
}

#[test]
fn stored_values_are_exact() {
    for dtype in [CacheType::F32, CacheType::F16] {
        let Some(mut gpu) = gpu(only("rotary_store")) else {
            return;
        };
        let case = Case {
            heads: 2,
            kv_heads: 2,
            head_dim: 6,
            rotary_dims: 6,
            pairing: Pairing::Halves,
            dtype,
        };
        let (scene, _, out) = scene(&case, 1);
        let step = Step {
            tokens: vec![0],
            positions: vec![0],
            slots: vec![0],
            outputs: Vec::new(),
            tables: vec![vec![5]],
            angles: Vec::new(),
        };
        block_on(async {
            let mut reference = Reference::new();
            scene.load(&mut reference).await.unwrap();
            scene.load(&mut gpu).await.unwrap();
            // One position has the whole weight, so the value comes back as it is stored.
            let expected = scene.run(&reference, &step, out).await.unwrap();
            let actual = scene.run(&gpu, &step, out).await.unwrap();
            assert_close(&format!("{dtype:?}"), &expected, &actual, &[0.0; 12]);
        });
    }
}
