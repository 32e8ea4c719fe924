//! The first half of a layer in three dispatches against its operations one by one, on the reference.

use decant::{
    exec::{
        Executor, Reference, TapeId,
        gpu::{Gpu, GpuOptions},
    },
    ops::{Attention, CacheSpec, CacheType, Op, Pairing, RotaryStore, Rotation},
    tape::Step,
};
use pollster::block_on;

use super::fused::{EPS, FORMS, norm};
use crate::{
    gpu, only,
    support::{close::assert_close, scene::Scene},
};

/// Attention from the normalisation on.
struct Block {
    heads: usize,
    cache: CacheSpec,
    rotation: Option<(Pairing, usize)>,
    bias: bool,
    window: Option<usize>,
    cap: Option<f32>,
    /// Positions of each sequence before the row that is compared.
    past: Vec<usize>,
}

const HIDDEN: usize = 32;

/// Fills the cache sequence by sequence, then compares a row of each, in 3 dispatches and one for x.
fn check_block(form: &str, gpu: &mut Gpu, block: &Block) {
    let cache = block.cache;
    let sequences = block.past.len();
    let longest = block.past.iter().max().unwrap() + 2;
    let mut scene = Scene::new(longest.max(sequences), longest as u64);
    scene.cache = cache;
    scene.sequences = sequences;
    scene.pages_per_sequence = longest.div_ceil(cache.page_size);
    let values = scene.random.values(64 * HIDDEN, 1.0);
    let x = scene.input("x", HIDDEN, &values);
    let normed = norm(&mut scene, x, "normed");
    let wide = block.heads * cache.head_dim;
    let mut qkv = Vec::new();
    for (name, outputs) in [("q", wide), ("k", cache.width()), ("v", cache.width())] {
        let values = scene.random.values(outputs * HIDDEN, 0.1);
        let weight = scene.values(outputs, &values);
        let mut op = scene.matmul(normed, weight, name);
        if block.bias {
            let values = scene.random.values(outputs, 0.1);
            op.bias = Some(scene.values(1, &values));
        }
        qkv.push(op);
    }
    let [q, k, v] = [0, 1, 2].map(|i| qkv[i].out);
    qkv.into_iter().for_each(|op| scene.op(Op::MatMul(op)));
    let rotation = block.rotation.map(|(pairing, dims)| {
        let angles = (0..longest).flat_map(|position| {
            let angle = move |i: usize| position as f32 * 0.7 / (1 + i) as f32;
            let cosines = (0..dims / 2).map(move |i| angle(i).cos());
            cosines.chain((0..dims / 2).map(move |i| angle(i).sin()))
        });
        let angles: Vec<f32> = angles.collect();
        Rotation {
            table: scene.values(longest, &angles),
            pairing,
            dims,
        }
    });
    scene.op(Op::RotaryStore(RotaryStore {
        q,
        k,
        v,
        rotation,
        layer: 0,
        heads: block.heads,
    }));
    let out = scene.buffer("out", wide);
    scene.op(Op::Attention(Attention {
        q,
        layer: 0,
        heads: block.heads,
        scale: 1.0,
        window: block.window,
        cap: block.cap,
        out,
    }));
    let pages = scene.pages_per_sequence as u32;
    let table = |slot: u32| {
        (0..pages)
            .rev()
            .map(move |page| page * sequences as u32 + slot)
    };
    let tables: Vec<Vec<u32>> = (0..sequences as u32)
        .map(|slot| table(slot).collect())
        .collect();
    let step = |slots: Vec<u32>, positions: Vec<u32>| Step {
        tokens: slots
            .iter()
            .zip(&positions)
            .map(|(s, p)| (s * 17 + p * 5) % 64)
            .collect(),
        positions,
        slots,
        tables: tables.clone(),
        ..Step::default()
    };
    block_on(async {
        let mut reference = Reference::new();
        scene.load(&mut reference).await.unwrap();
        scene.load(gpu).await.unwrap();
        for (slot, &past) in block.past.iter().enumerate().filter(|(_, past)| **past > 0) {
            let fill = step(vec![slot as u32; past], (0..past as u32).collect());
            reference.forward(TapeId(0), &fill).await.unwrap();
            gpu.forward(TapeId(0), &fill).await.unwrap();
        }
        let gpu = &*gpu;
        // The second run is like the first, and the third sees what they have stored at the rows' own positions.
        for (run, later) in [0, 0, 1].into_iter().enumerate() {
            let last = step(
                (0..sequences as u32).collect(),
                block.past.iter().map(|&past| past as u32 + later).collect(),
            );
            let expected = scene.run(&reference, &last, out).await.unwrap();
            let before = gpu.counters();
            let actual = scene.run(gpu, &last, out).await.unwrap();
            let what = format!(
                "{form}, {} heads, {cache:?}, {:?}, {:?}, run {run}",
                block.heads, block.rotation, block.past
            );
            assert_eq!(gpu.counters().dispatches - before.dispatches, 4, "{what}");
            let mut most = [0.0; 3];
            for (most, buffer) in most.iter_mut().zip([q, k, v]) {
                let values = reference.read(TapeId(0), buffer, sequences).await.unwrap();
                *most = values
                    .iter()
                    .fold(1f64, |most, v| most.max(f64::from(v.abs())));
            }
            let allowed = block_tolerance(&cache, longest, most);
            assert_close(&what, &expected, &actual, &vec![allowed; expected.len()]);
        }
    });
}

/// Normalised rows of 32 values have a sum of squares of at most 32 and weights are at most 0.1, so a
/// product's terms add up to 3.2 at most, and it is off by `error` as in [`tolerances`]. A score of
/// `head_dim` products of values up to `q` and `k` is off by both factors' errors. Both sides round what an
/// F16 cache holds alike, but where an error crosses the middle between two halves: a quarter of the entries
/// at most, and by 2⁻¹¹ of themselves with either sign. Weights change by as much as scores, relatively, and
/// their sums round.
fn block_tolerance(cache: &CacheSpec, positions: usize, [q, k, v]: [f64; 3]) -> f64 {
    let error = (1.5 * HIDDEN as f64 + 24.0) * EPS / 2.0 * 3.3 + 4.0 * EPS * (q + k);
    let half = match cache.dtype {
        CacheType::F32 => 0.0,
        CacheType::F16 => 2f64.powi(-11),
    };
    let d = cache.head_dim as f64;
    let crossed = (d / 4.0).sqrt() * half * q * k;
    let score = d * (q + k) * error + crossed + (d + 8.0) * EPS * d * q * k;
    2.0 * score * v + error + half * v + (positions as f64 + 16.0) * EPS * v
}

fn cache(kv_heads: usize, head_dim: usize, dtype: CacheType) -> CacheSpec {
    CacheSpec {
        layers: 1,
        kv_heads,
        head_dim,
        conv_layers: 0,
        conv_width: 1,
        dtype,
        page_size: 4,
        pages: 60,
    }
}

/// Every cache format and pairing of a form, for these heads, key-value heads and sizes of a head.
fn check_form(form: &'static str, shapes: &[(usize, usize, usize)]) {
    let Some(mut gpu) = gpu(only(form)) else {
        return;
    };
    for dtype in [CacheType::F32, CacheType::F16] {
        for pairing in [Pairing::Halves, Pairing::Neighbours] {
            for &(heads, kv_heads, head_dim) in shapes {
                for past in [vec![0], vec![15], vec![16], vec![3, 37, 0]] {
                    let block = Block {
                        heads,
                        cache: cache(kv_heads, head_dim, dtype),
                        rotation: Some((pairing, head_dim / 2)),
                        bias: heads == 3,
                        window: None,
                        cap: None,
                        past,
                    };
                    check_block(form, &mut gpu, &block);
                }
            }
        }
    }
}

#[test]
fn attention_from_the_normalisation_on() {
    for form in FORMS {
        // Groups of one, of three, and of eight, which two invocations share.
        check_form(form, &[(2, 2, 16), (3, 1, 64), (16, 2, 32), (1, 1, 128)]);
    }
}

#[test]
fn attention_by_workgroups() {
    // Groups of three, and of twelve, which two workgroups share; heads of one stage and of two.
    check_form("attention_rotary_workgroup", &[(3, 1, 128), (12, 1, 16)]);
}

#[test]
fn attention_with_a_window_a_cap_and_without_angles() {
    let workgroup = "attention_rotary_workgroup";
    for (form, options) in [
        ("measured", GpuOptions::default()),
        (workgroup, only(workgroup)),
    ] {
        let Some(mut gpu) = gpu(options) else {
            return;
        };
        for (window, cap) in [(Some(1), None), (Some(5), Some(2.0)), (Some(40), Some(0.5))] {
            for rotation in [None, Some((Pairing::Halves, 32))] {
                let block = Block {
                    heads: 4,
                    cache: cache(2, 32, CacheType::F32),
                    rotation,
                    bias: false,
                    window,
                    cap,
                    past: vec![33, 4],
                };
                check_block(form, &mut gpu, &block);
            }
        }
    }
}
