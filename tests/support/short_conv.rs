//! Short convolution over a cache filled by earlier steps: any executor against the formula.

use decant::{
    exec::{Executor, TapeId},
    ops::{BufferId, CacheSpec, CacheType, Op, ShortConv},
    tape::Step,
};
use half::f16;
use pollster::block_on;

use super::{close::assert_close, scene::Scene};

pub struct Case {
    pub width: usize,
    pub taps: usize,
    pub bias: bool,
    pub dtype: CacheType,
    /// Positions in a page.
    pub page: usize,
    /// Tokens that each sequence has in the cache, and in the step that is compared.
    pub lengths: Vec<(usize, usize)>,
}

/// Tokens that have a row of x.
const TOKENS: usize = 61;

/// The token of a sequence at a position.
fn token(slot: usize, position: usize) -> u32 {
    ((slot * 17 + position * 5) % TOKENS) as u32
}

struct Layer {
    /// A row of `3 · width` for each token.
    x: Vec<f32>,
    weight: Vec<f32>,
    bias: Option<Vec<f32>>,
    out: BufferId,
}

impl Layer {
    /// The formula, channel by channel, and the magnitude of what it adds up.
    fn expected(&self, case: &Case, slot: usize, position: usize, channel: usize) -> (f64, f64) {
        let width = case.width;
        let part = |at: usize, part: usize| {
            self.x[token(slot, at) as usize * 3 * width + part * width + channel]
        };
        let u = |at: usize| {
            let u = part(at, 0) * part(at, 2);
            match case.dtype {
                CacheType::F16 if at != position => f64::from(f16::from_f32(u).to_f32()),
                _ => f64::from(u),
            }
        };
        let seen = (0..case.taps.min(position + 1)).map(|back| {
            let factor = self.weight[channel * case.taps + case.taps - 1 - back];
            f64::from(factor) * u(position - back)
        });
        let bias = self.bias.as_ref().map(|bias| f64::from(bias[channel]));
        let terms: Vec<f64> = seen.chain(bias).collect();
        let gate = f64::from(part(position, 1));
        let size: f64 = terms.iter().map(|term| term.abs()).sum();
        (gate * terms.iter().sum::<f64>(), gate.abs() * size)
    }
}

/// Fills the cache step by step, with tokens after the last that are then given up, and compares a ragged
/// step of all sequences, row by row in turn. Returns the dispatches of that step.
pub fn check(executor: &mut impl Executor, what: &str, case: &Case) -> u64 {
    let sequences = case.lengths.len();
    let total = |&(past, now): &(usize, usize)| past + now;
    let longest = case.lengths.iter().map(total).max().unwrap();
    let all: usize = case.lengths.iter().map(|&(past, now)| past.max(now)).sum();
    let pages = longest.div_ceil(case.page);
    let mut scene = Scene::new(all, (all * 1000 + case.width) as u64);
    scene.cache = CacheSpec {
        layers: 0,
        conv_layers: 2,
        conv_width: case.width,
        dtype: case.dtype,
        page_size: case.page,
        pages: pages * sequences,
        ..scene.cache
    };
    scene.sequences = sequences;
    scene.pages_per_sequence = pages;
    let layers = [0, 1].map(|layer| {
        let values = scene.random.values(TOKENS * 3 * case.width, 1.0);
        let x = scene.input(&format!("x {layer}"), 3 * case.width, &values);
        let weight = scene.random.values(case.taps * case.width, 1.0);
        let bias = case.bias.then(|| scene.random.values(case.width, 1.0));
        let out = scene.buffer(&format!("out {layer}"), case.width);
        let op = ShortConv {
            x,
            weight: scene.values(1, &weight),
            bias: bias.as_ref().map(|bias| scene.values(1, bias)),
            taps: case.taps,
            layer,
            out,
        };
        scene.op(Op::ShortConv(op));
        Layer {
            x: values,
            weight,
            bias,
            out,
        }
    });
    // Pages of all sequences in turn, from the last to the first.
    let table = |slot| (0..pages).map(move |page| ((pages - 1 - page) * sequences + slot) as u32);
    let tables: Vec<Vec<u32>> = (0..sequences).map(|slot| table(slot).collect()).collect();
    let step = |rows: &[(usize, usize)], tokens: Vec<u32>| Step {
        tokens,
        positions: rows.iter().map(|row| row.1 as u32).collect(),
        slots: rows.iter().map(|row| row.0 as u32).collect(),
        tables: tables.clone(),
        ..Step::default()
    };
    let right = |rows: &[(usize, usize)]| {
        let tokens = rows.iter().map(|&(slot, at)| token(slot, at));
        step(rows, tokens.collect())
    };
    let mut last = Vec::new();
    for round in 0..longest {
        let slots = case.lengths.iter().enumerate();
        let there = slots.filter(|(_, (_, now))| round < *now);
        last.extend(there.map(|(slot, (past, _))| (slot, past + round)));
    }
    block_on(async {
        scene.load(executor).await.unwrap();
        for (slot, &(past, _)) in case.lengths.iter().enumerate() {
            let rows: Vec<_> = (0..past).map(|at| (slot, at)).collect();
            let (first, rest) = rows.split_at(past.div_ceil(3));
            for rows in [first, rest].iter().filter(|rows| !rows.is_empty()) {
                executor.forward(TapeId(0), &right(rows)).await.unwrap();
            }
        }
        let wrong = step(&last, vec![1; last.len()]);
        executor.forward(TapeId(0), &wrong).await.unwrap();
        let before = executor.counters().dispatches;
        executor.forward(TapeId(0), &right(&last)).await.unwrap();
        let dispatches = executor.counters().dispatches - before;
        for (number, layer) in layers.iter().enumerate() {
            let rows = last.iter();
            let pairs = rows.flat_map(|&(slot, at)| {
                let channels = 0..case.width;
                channels.map(move |channel| layer.expected(case, slot, at, channel))
            });
            let (expected, sizes): (Vec<_>, Vec<_>) = pairs.unzip();
            let expected: Vec<f32> = expected.iter().map(|value| *value as f32).collect();
            // Every product and sum rounds, and the gate.
            let roundings = case.taps as f64 + 3.0;
            let allowed = sizes
                .iter()
                .map(|size| roundings * f64::from(f32::EPSILON) * size);
            let actual = executor
                .read(TapeId(0), layer.out, last.len())
                .await
                .unwrap();
            let what = format!(
                "{what}, layer {number}: {} channels, {} taps, {:?}, pages of {}, {:?}",
                case.width, case.taps, case.dtype, case.page, case.lengths
            );
            assert_close(&what, &expected, &actual, &allowed.collect::<Vec<_>>());
        }
        dispatches
    })
}

/// Every cache type, with channels that fill no quad or workgroup, few and many taps, and pages of any size.
pub fn sweep(mut each: impl FnMut(&Case)) {
    for dtype in [CacheType::F32, CacheType::F16] {
        for (width, taps, bias, page) in [
            (1, 3, false, 4),
            (3, 1, true, 1),
            (32, 3, false, 8),
            (63, 2, true, 3),
            (64, 4, false, 2),
            (65, 3, true, 16),
            (197, 5, false, 4),
            (1024, 3, false, 32),
        ] {
            for lengths in [
                vec![(0, 1)],
                vec![(7, 1)],
                vec![(0, 37)],
                vec![(9, 1), (0, 1), (1, 1)],
                vec![(3, 5), (0, 1), (17, 2), (2, 9)],
            ] {
                each(&Case {
                    width,
                    taps,
                    bias,
                    dtype,
                    page,
                    lengths,
                });
            }
        }
    }
}
