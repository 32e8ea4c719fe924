//! Attention over a cache filled by earlier steps: any executor against the reference.

use decant::{
    exec::{Executor, Reference, TapeId},
    ops::{Attention, CacheSpec, CacheType, Op, Pairing, RotaryStore, Rotation},
    tape::Step,
};
use pollster::block_on;

use super::{close::assert_close, scene::Scene};

/// What an output may differ by where keys and values are at most 1 in magnitude and queries at most `scale`.
///
/// The magnitudes of a score's `head_dim` products add up to `head_dim · scale / 4` on average, twice that at
/// most, and it is off by `(head_dim + 1) · ε/2` of that. Rotated keys differ by 2ε before they are stored,
/// and where that crosses the middle between two halves, an entry of an F16 cache differs by 2⁻¹¹ and a score
/// by that times the query's largest value, for which a quarter of the entries is assumed. A cap makes no
/// score further off, but for a few units of what is left of it, as exp does. Weights change by as much as
/// scores, relatively, and the weights and the sum of `positions` products round as sums do.
pub fn tolerance(
    dtype: &CacheType,
    head_dim: usize,
    positions: usize,
    scale: f64,
    cap: Option<f64>,
) -> f64 {
    let eps = f64::from(f32::EPSILON);
    let d = head_dim as f64;
    let most = scale * d / 2.0;
    let rounding = match dtype {
        CacheType::F32 => 0.0,
        CacheType::F16 => 2f64.powi(-11) * (d / 4.0).sqrt() * scale,
    };
    let left = cap.map_or(most, |cap| cap.min(most));
    let score = (d + 1.0) * eps / 2.0 * most + rounding + 8.0 * eps * left;
    2.0 * score + (positions as f64 + 16.0) * eps
}

pub struct Case {
    pub heads: usize,
    pub cache: CacheSpec,
    /// Tokens that each sequence has in the cache, and in the step that is compared.
    pub lengths: Vec<(usize, usize)>,
    /// What queries are multiplied by.
    pub scale: f32,
    pub window: Option<usize>,
    pub cap: Option<f32>,
}

/// Fills the cache with one step for each sequence, then compares a ragged step of all.
pub fn check(executor: &mut impl Executor, what: &str, case: &Case) {
    let cache = case.cache;
    let rows = case
        .lengths
        .iter()
        .map(|&(past, now)| past.max(now))
        .sum::<usize>();
    let longest = case
        .lengths
        .iter()
        .map(|&(past, now)| past + now)
        .max()
        .unwrap();
    let mut scene = Scene::new(rows, (rows * 1000 + cache.head_dim) as u64);
    scene.cache = cache;
    scene.sequences = case.lengths.len();
    scene.pages_per_sequence = longest.div_ceil(cache.page_size);
    let wide = case.heads * cache.head_dim;
    let [q, k, v] =
        [("q", wide), ("k", cache.width()), ("v", cache.width())].map(|(name, columns)| {
            let values = scene
                .random
                .values(rows * columns, if name == "q" { case.scale } else { 1.0 });
            scene.input(name, columns, &values)
        });
    let table = scene.values(longest, &[1.0, 0.0].repeat(longest));
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
        heads: case.heads,
    }));
    let out = scene.buffer("out", wide);
    scene.op(Op::Attention(Attention {
        q,
        layer: 0,
        heads: case.heads,
        scale: 1.0,
        window: case.window,
        cap: case.cap,
        out,
    }));
    let tables = shuffled_tables(&mut scene, case);
    let (scale, cap) = (f64::from(case.scale), case.cap.map(f64::from));
    let allowed = tolerance(&cache.dtype, cache.head_dim, longest, scale, cap);
    block_on(async {
        let mut reference = Reference::new();
        scene.load(&mut reference).await.unwrap();
        scene.load(executor).await.unwrap();
        let steps = steps(case, &tables, &mut scene);
        let (last, fill) = steps.split_last().unwrap();
        for step in fill {
            reference.forward(TapeId(0), step).await.unwrap();
            executor.forward(TapeId(0), step).await.unwrap();
        }
        let expected = scene.run(&reference, last, out).await.unwrap();
        let actual = scene.run(executor, last, out).await.unwrap();
        let what = format!(
            "{what}: {} heads, {cache:?}, {:?}",
            case.heads, case.lengths
        );
        assert_close(&what, &expected, &actual, &vec![allowed; expected.len()]);
    });
}

/// Rows whose visible scores are all one low number, beside keys that they do not see and that score better: those
/// before the window, and what an earlier sequence left in the pages after the last position. Their values are so
/// large that any weight of theirs would show.
pub fn check_masks(executor: &mut impl Executor, what: &str) {
    for dtype in [CacheType::F32, CacheType::F16] {
        for (length, window, score) in [
            (1, None, -65_504.0),
            (2, Some(1), -20_000.0),
            (70, None, -65_504.0),
            (200, Some(1), -20_000.0),
            (200, Some(4), -20_000.0),
            (200, Some(70), -65_504.0),
        ] {
            for now in [1, 6.min(length)] {
                let what =
                    format!("{what}: {length} keys of {score}, {window:?}, {now} rows, {dtype:?}");
                let found = masked(executor, dtype, length, window, score, now);
                let seen = length - window.unwrap_or(length)..length;
                let expected = seen.clone().map(masked_value).sum::<f32>() / seen.len() as f32;
                let allowed = 4.0 * f64::from(f32::EPSILON * expected);
                assert_close(&what, &[expected; 8], &found, &[allowed; 8]);
            }
        }
    }
}

/// What position `at` holds, between 1 and 5: sums of it are exact.
fn masked_value(at: usize) -> f32 {
    (at % 5 + 1) as f32
}

/// The last row of a step of `now` rows that ends a sequence of `length`.
fn masked(
    executor: &mut impl Executor,
    dtype: CacheType,
    length: usize,
    window: Option<usize>,
    score: f32,
    now: usize,
) -> Vec<f32> {
    let cache = cache(1, 8, dtype, 4);
    let pages = length.div_ceil(cache.page_size);
    let room = pages * cache.page_size;
    let mut scene = Scene::new(room, 0);
    (scene.cache, scene.pages_per_sequence) = (cache, pages);
    let seen = length - window.unwrap_or(length)..length;
    // The last token of all is of the sequence before.
    let rows = |value: &dyn Fn(usize) -> [f32; 8]| (0..=length).flat_map(value).collect::<Vec<_>>();
    let keys = rows(&|at| {
        let score = if seen.contains(&at) { score } else { 0.0 };
        [score, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    });
    let values = rows(&|at| {
        [if seen.contains(&at) {
            masked_value(at)
        } else {
            30_000.0
        }; 8]
    });
    let q = scene.input("q", 8, &rows(&|_| [1.0; 8]));
    let [k, v] = [("k", keys), ("v", values)].map(|(name, values)| scene.input(name, 8, &values));
    scene.op(Op::RotaryStore(RotaryStore {
        q,
        k,
        v,
        rotation: None,
        layer: 0,
        heads: 1,
    }));
    let out = scene.buffer("out", 8);
    scene.op(Op::Attention(Attention {
        q,
        layer: 0,
        heads: 1,
        scale: 1.0,
        window,
        cap: None,
        out,
    }));
    let step = |positions: std::ops::Range<usize>, token: &dyn Fn(usize) -> usize| Step {
        tokens: positions.clone().map(|at| token(at) as u32).collect(),
        slots: vec![0; positions.len()],
        positions: positions.map(|at| at as u32).collect(),
        tables: vec![(0..pages as u32).rev().collect()],
        ..Step::default()
    };
    block_on(async {
        scene.load(executor).await.unwrap();
        let before = step(0..room, &|_| length);
        executor.forward(TapeId(0), &before).await.unwrap();
        if now < length {
            let past = step(0..length - now, &|at| at);
            executor.forward(TapeId(0), &past).await.unwrap();
        }
        let last = step(length - now..length, &|at| at);
        let found = scene.run(executor, &last, out).await.unwrap();
        found[(now - 1) * 8..].to_vec()
    })
}

/// Pages in random order, none shared.
fn shuffled_tables(scene: &mut Scene, case: &Case) -> Vec<Vec<u32>> {
    let mut pages: Vec<u32> = (0..case.cache.pages as u32).collect();
    for i in (1..pages.len()).rev() {
        pages.swap(i, scene.random.below(i + 1));
    }
    let mut pages = pages.into_iter();
    let tables = case.lengths.iter().map(|&(past, now)| {
        let count = (past + now).div_ceil(case.cache.page_size);
        pages.by_ref().take(count).collect()
    });
    tables.collect()
}

/// One step for each sequence's past, then one for the rows of all.
fn steps(case: &Case, tables: &[Vec<u32>], scene: &mut Scene) -> Vec<Step> {
    let rows = scene.tape.max_rows;
    let mut step = |ranges: &[(usize, usize, usize)]| {
        let mut step = Step {
            tables: tables.to_vec(),
            ..Step::default()
        };
        for &(slot, from, to) in ranges {
            for position in from..to {
                step.tokens.push(scene.random.below(rows) as u32);
                step.positions.push(position as u32);
                step.slots.push(slot as u32);
            }
        }
        step
    };
    let mut steps: Vec<Step> = Vec::new();
    for (slot, &(past, _)) in case.lengths.iter().enumerate() {
        if past > 0 {
            steps.push(step(&[(slot, 0, past)]));
        }
    }
    let now: Vec<_> = case
        .lengths
        .iter()
        .enumerate()
        .map(|(slot, &(past, now))| (slot, past, past + now))
        .collect();
    steps.push(step(&now));
    steps
}

/// A cache of one layer and 96 pages.
pub fn cache(kv_heads: usize, head_dim: usize, dtype: CacheType, page_size: usize) -> CacheSpec {
    CacheSpec {
        layers: 1,
        kv_heads,
        head_dim,
        conv_layers: 0,
        conv_width: 1,
        dtype,
        page_size,
        pages: 96,
    }
}
