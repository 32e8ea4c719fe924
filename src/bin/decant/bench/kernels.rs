//! Kernels one by one: matrices of every format, attention at several lengths, normalisation.

use decant::{
    exec::{Allocation, TapeId},
    ops::{
        Activation, Attention, BufferId, BufferSpec, CacheSpec, CacheType, GatedMatMul, MatMul,
        Norm, Op, Rows, WeightId,
    },
    tape::{Step, Tape},
    tensor::{DType, WeightSpec},
};
use serde_json::json;

use super::{
    machine::Machine,
    report::{Ceiling, Report},
    shape::Shape,
};
use crate::Outcome;

/// Bytes of matrices that are read in one step: more than the caches of a core hold, as in a model.
const MATRIX_BYTES: usize = 48 << 20;
/// Positions in a page.
const PAGE: usize = 32;
/// Rows of a step that reads a prompt.
pub const MANY_ROWS: usize = 512;
/// Rows whose time is that of reading the weights once, and batches.
const FEW_ROWS: [usize; 3] = [1, 4, 8];

/// What a format's kernels reach, as shares of the ceilings.
#[derive(Debug, Clone, Copy)]
pub struct Shares {
    pub dtype: DType,
    /// One row by a large matrix, of the bytes read.
    pub vector: f64,
    /// Many rows, of the multiply-adds.
    pub tile: f64,
}

/// A tape in the making.
#[derive(Default)]
struct Scene {
    weights: Vec<WeightSpec>,
    buffers: Vec<BufferSpec>,
    ops: Vec<Op>,
}

impl Scene {
    fn buffer(&mut self, name: &str, columns: usize) -> BufferId {
        self.buffers.push(BufferSpec {
            name: name.into(),
            rows: Rows::Tokens,
            columns,
        });
        BufferId(self.buffers.len() - 1)
    }

    fn weight(&mut self, dtype: DType, rows: usize, columns: usize) -> WeightId {
        self.weights.push(WeightSpec {
            name: format!("weight {}", self.weights.len()),
            dtype,
            rows,
            columns,
        });
        WeightId(self.weights.len() - 1)
    }

    fn matmul(&mut self, dtype: DType, x: BufferId, out: BufferId) {
        let (rows, columns) = (self.buffers[out.0].columns, self.buffers[x.0].columns);
        let weight = self.weight(dtype, rows, columns);
        self.ops.push(Op::MatMul(MatMul {
            x,
            weight,
            bias: None,
            scale: 1.0,
            activation: None,
            residual: None,
            out,
        }));
    }

    fn tape(&self, ops: usize, max_rows: usize) -> Tape {
        Tape {
            buffers: self.buffers.clone(),
            ops: self.ops[..ops].to_vec(),
            logits: BufferId(0),
            max_rows,
            max_outputs: 1,
        }
    }

    fn allocation(&self, cache: CacheSpec) -> Allocation {
        Allocation {
            weights: self.weights.clone(),
            groups: Vec::new(),
            cache,
            sequences: 1,
            pages_per_sequence: cache.pages,
        }
    }
}

/// The matrices of as many of the model's layers as it takes, in each of `formats`.
pub fn matrices(
    machine: &mut Machine,
    report: &mut Report,
    shape: &Shape,
    formats: &[DType],
) -> Outcome<Vec<Shares>> {
    let about =
        "those of layers and the head; 1 to 8 rows as a share of bytes read, many of multiply-adds";
    report.section("matrices", about);
    let (mut all, mut heads) = (Vec::new(), Vec::new());
    for &dtype in formats {
        let mut scene = Scene::default();
        let x = scene.buffer("x", shape.hidden);
        let narrow = scene.buffer("narrow", shape.kv_width());
        let out = scene.buffer("out", shape.hidden);
        let wide = scene.buffer("wide", shape.feed_forward);
        let mut layer_ops = 0;
        let mut bytes = 0;
        for _ in 0..shape.layers {
            if bytes >= MATRIX_BYTES {
                break;
            }
            scene.matmul(dtype, x, out);
            scene.matmul(dtype, x, narrow);
            scene.matmul(dtype, x, narrow);
            scene.matmul(dtype, x, out);
            let gate = scene.weight(dtype, shape.feed_forward, shape.hidden);
            let up = scene.weight(dtype, shape.feed_forward, shape.hidden);
            scene.ops.push(Op::GatedMatMul(GatedMatMul {
                x,
                gate,
                up,
                biases: [None; 2],
                activation: Activation::Silu,
                out: wide,
            }));
            scene.matmul(dtype, wide, out);
            if layer_ops == 0 {
                layer_ops = scene.ops.len();
            }
            bytes = scene.weights.iter().map(WeightSpec::bytes).sum();
        }
        let whole = scene.tape(scene.ops.len(), FEW_ROWS[2]);
        let layer = scene.tape(layer_ops, MANY_ROWS);
        // By itself, so that the cost of a dispatch does not matter.
        scene.ops.clear();
        let logits = scene.buffer("logits", shape.vocabulary);
        let head = WeightId(scene.weights.len());
        scene.matmul(dtype, x, logits);
        let last = scene.tape(1, 1);
        machine.load(scene.allocation(no_cache()), vec![whole, layer, last])?;
        for rows in FEW_ROWS {
            let seconds = machine.seconds(TapeId(0), &rows_at_0(rows), out)?;
            let what = json!({ "format": dtype.name(), "rows": rows });
            report.share(what, seconds, Ceiling::Read, bytes);
        }
        let seconds = machine.seconds(TapeId(1), &rows_at_0(MANY_ROWS), out)?;
        let what = json!({ "format": dtype.name(), "rows": MANY_ROWS });
        let work = shape.layer_values() * MANY_ROWS;
        let tile = report.share(what, seconds, Ceiling::MultiplyAdd, work);
        let seconds = machine.seconds(TapeId(2), &rows_at_0(1), logits)?;
        let what = json!({ "format": dtype.name(), "matrix": "head", "rows": 1 });
        let bytes = scene.weights[head.0].bytes();
        let vector = report.share(what, seconds, Ceiling::Read, bytes);
        all.push(Shares {
            dtype,
            vector,
            tile,
        });
        heads.push(seconds);
    }
    // Fewer bits must not take longer than none.
    if let Some(plain) = formats.iter().position(|&dtype| dtype == DType::F32) {
        for (dtype, seconds) in formats.iter().zip(&heads) {
            let what = json!({ "format": dtype.name(), "matrix": "head", "target": 1.0 });
            report.figure(what, "time_against_f32", seconds / heads[plain]);
        }
    }
    Ok(all)
}

/// Attention of one row over sequences of `contexts`; returns the share of bytes read at the longest.
pub fn attention(
    machine: &mut Machine,
    report: &mut Report,
    shape: &Shape,
    contexts: &[usize],
) -> Outcome<f64> {
    let about = "one row in every layer, as a share of bytes of keys and values read";
    report.section("attention", about);
    let mut scene = Scene::default();
    let q = scene.buffer("q", shape.hidden);
    let out = scene.buffer("out", shape.hidden);
    for layer in 0..shape.layers {
        scene.ops.push(Op::Attention(Attention {
            q,
            layer,
            heads: shape.heads,
            scale: 0.125,
            cap: None,
            window: None,
            out,
        }));
    }
    let longest = contexts.iter().copied().max().unwrap_or(1);
    let pages = longest.div_ceil(PAGE);
    let cache = CacheSpec {
        layers: shape.layers,
        kv_heads: shape.kv_heads,
        head_dim: shape.head_dim(),
        conv_layers: 0,
        conv_width: 1,
        dtype: CacheType::F16,
        page_size: PAGE,
        pages,
    };
    let tape = scene.tape(scene.ops.len(), 1);
    machine.load(scene.allocation(cache), vec![tape])?;
    let mut share = 0.0;
    for &context in contexts {
        let step = Step {
            positions: vec![context as u32 - 1],
            tables: vec![(0..pages as u32).collect()],
            ..rows_at_0(1)
        };
        let seconds = machine.seconds(TapeId(0), &step, out)?;
        let what = json!({ "cache": "F16", "context": context });
        share = report.share(what, seconds, Ceiling::Read, shape.cache_bytes(context));
    }
    Ok(share)
}

/// Normalisation, whose time is that of a dispatch where things go well.
pub fn norm(machine: &mut Machine, report: &mut Report, shape: &Shape) -> Outcome<()> {
    report.section(
        "norm",
        "of one row and of many, microseconds of one normalisation",
    );
    let mut scene = Scene::default();
    let x = scene.buffer("x", shape.hidden);
    let out = scene.buffer("out", shape.hidden);
    let weight = scene.weight(DType::F32, 1, shape.hidden);
    /// Normalisations in a step.
    const COUNT: usize = 60;
    let norm = Norm {
        x,
        weight,
        bias: None,
        groups: 1,
        epsilon: 1e-5,
        centred: false,
        add: false,
        out,
    };
    scene.ops = vec![Op::Norm(norm); COUNT];
    let tape = scene.tape(COUNT, MANY_ROWS);
    machine.load(scene.allocation(no_cache()), vec![tape])?;
    for rows in [1, MANY_ROWS] {
        let seconds = machine.seconds(TapeId(0), &rows_at_0(rows), out)?;
        let each = seconds / COUNT as f64 * 1e6;
        let text = format!("{each:8.2} µs each");
        let what = json!({ "rows": rows });
        report.row(what, seconds, &text, json!({ "microseconds_each": each }));
    }
    Ok(())
}

/// A cache that nothing reads.
fn no_cache() -> CacheSpec {
    CacheSpec {
        layers: 0,
        kv_heads: 1,
        head_dim: 4,
        conv_layers: 0,
        conv_width: 1,
        dtype: CacheType::F32,
        page_size: 1,
        pages: 1,
    }
}

/// A step of `rows` rows without outputs, at position 0 of one sequence.
fn rows_at_0(rows: usize) -> Step {
    Step {
        tokens: vec![0; rows],
        positions: vec![0; rows],
        slots: vec![0; rows],
        outputs: Vec::new(),
        tables: vec![vec![0]],
        angles: Vec::new(),
    }
}
