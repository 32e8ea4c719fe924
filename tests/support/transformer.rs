//! A small transformer of the Llama kind, its tape built by hand, and steps for it.

use decant::{
    ops::{
        Activation, Attention, BufferId, BufferSpec, CacheSpec, CacheType, Embed, GatedMatMul,
        Lookup, MatMul, Norm, Op, Pairing, RotaryStore, Rotation, Rows, SelectRows,
    },
    tape::Step,
    tensor::DType,
};

use super::scene::Scene;

const PAGE: usize = 4;
const SEQUENCES: usize = 3;

/// Sizes of a transformer.
pub struct Sizes {
    pub hidden: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub feed_forward: usize,
    pub vocabulary: usize,
    pub dtype: DType,
    pub cache: CacheType,
}

/// No size is a multiple of anything.
pub const ODD: Sizes = Sizes {
    hidden: 36,
    heads: 4,
    kv_heads: 2,
    head_dim: 9,
    feed_forward: 53,
    vocabulary: 101,
    dtype: DType::F16,
    cache: CacheType::F16,
};

/// Every matrix in blocks.
pub const QUANTISED: Sizes = Sizes {
    hidden: 64,
    heads: 4,
    kv_heads: 2,
    head_dim: 16,
    feed_forward: 96,
    vocabulary: 100,
    dtype: DType::Q4_1,
    cache: CacheType::F32,
};

/// Two layers, with biases on the projections of attention.
pub fn transformer(sizes: &Sizes, max_rows: usize) -> Scene {
    let mut scene = Scene::new(max_rows, 11);
    scene.tape.max_outputs = SEQUENCES;
    scene.sequences = SEQUENCES;
    scene.pages_per_sequence = 8;
    scene.cache = CacheSpec {
        layers: 2,
        kv_heads: sizes.kv_heads,
        head_dim: sizes.head_dim,
        conv_layers: 0,
        conv_width: 1,
        dtype: sizes.cache,
        page_size: PAGE,
        pages: 24,
    };
    let (wide, narrow) = (
        sizes.heads * sizes.head_dim,
        sizes.kv_heads * sizes.head_dim,
    );
    let embedding = scene.random_weight(sizes.dtype, sizes.vocabulary, sizes.hidden);
    let rotary = sizes.head_dim / 2 * 2;
    let angles: Vec<f32> = (0..32)
        .flat_map(|position| {
            let angle = |i: usize| position as f32 / 100f32.powf(i as f32 * 2.0 / rotary as f32);
            let (sines, cosines): (Vec<_>, Vec<_>) =
                (0..rotary / 2).map(|i| angle(i).sin_cos()).unzip();
            [cosines, sines].concat()
        })
        .collect();
    let table = scene.values(32, &angles);
    let hidden = scene.buffer("hidden", sizes.hidden);
    scene.op(Op::Embed(Embed {
        weight: embedding,
        lookup: Lookup::Token,
        scale: 1.0,
        add: false,
        out: hidden,
    }));
    for layer in 0..2 {
        let norm = norm(&mut scene, hidden, "norm");
        let q = linear(&mut scene, sizes.dtype, norm, wide, "q", true);
        let k = linear(&mut scene, sizes.dtype, norm, narrow, "k", true);
        let v = linear(&mut scene, sizes.dtype, norm, narrow, "v", true);
        scene.op(Op::RotaryStore(RotaryStore {
            q,
            k,
            v,
            rotation: Some(Rotation {
                table,
                pairing: Pairing::Halves,
                dims: rotary,
            }),
            layer,
            heads: sizes.heads,
        }));
        let mixed = scene.buffer("attention", wide);
        scene.op(Op::Attention(Attention {
            q,
            layer,
            heads: sizes.heads,
            scale: 1.0 / (sizes.head_dim as f32).sqrt(),
            window: None,
            cap: None,
            out: mixed,
        }));
        residual(&mut scene, sizes.dtype, mixed, hidden);
        let normed = self::norm(&mut scene, hidden, "feed-forward norm");
        let [gate, up] =
            [0, 1].map(|_| scene.random_weight(sizes.dtype, sizes.feed_forward, sizes.hidden));
        let out = scene.buffer("feed-forward", sizes.feed_forward);
        scene.op(Op::GatedMatMul(GatedMatMul {
            x: normed,
            gate,
            up,
            biases: [None; 2],
            activation: Activation::Silu,
            out,
        }));
        let plain = if sizes.feed_forward.is_multiple_of(32) {
            sizes.dtype
        } else {
            DType::BF16
        };
        residual(&mut scene, plain, out, hidden);
    }
    let kept = output_buffer(&mut scene, "kept", sizes.hidden);
    scene.op(Op::SelectRows(SelectRows {
        x: hidden,
        out: kept,
    }));
    let logits = output_buffer(&mut scene, "logits", sizes.vocabulary);
    scene.op(Op::MatMul(MatMul {
        x: kept,
        weight: embedding,
        bias: None,
        scale: 1.0,
        activation: None,
        residual: None,
        out: logits,
    }));
    scene.tape.logits = logits;
    scene
}

fn output_buffer(scene: &mut Scene, name: &str, columns: usize) -> BufferId {
    scene.tape.buffers.push(BufferSpec {
        name: name.into(),
        rows: Rows::Outputs,
        columns,
    });
    BufferId(scene.tape.buffers.len() - 1)
}

fn norm(scene: &mut Scene, x: BufferId, name: &str) -> BufferId {
    let columns = scene.tape.buffers[x.0].columns;
    let weight = scene.random_weight(DType::F32, 1, columns);
    let out = scene.buffer(name, columns);
    scene.op(Op::Norm(Norm {
        x,
        groups: 1,
        centred: false,
        weight,
        bias: None,
        epsilon: 1e-5,
        add: false,
        out,
    }));
    out
}

fn linear(
    scene: &mut Scene,
    dtype: DType,
    x: BufferId,
    outputs: usize,
    name: &str,
    bias: bool,
) -> BufferId {
    let inputs = scene.tape.buffers[x.0].columns;
    let weight = scene.random_weight(dtype, outputs, inputs);
    let bias = bias.then(|| scene.random_weight(DType::F32, 1, outputs));
    let out = scene.buffer(name, outputs);
    scene.op(Op::MatMul(MatMul {
        x,
        weight,
        bias,
        scale: 1.0,
        activation: None,
        residual: None,
        out,
    }));
    out
}

/// Adds a projection of `x` to `hidden`.
fn residual(scene: &mut Scene, dtype: DType, x: BufferId, hidden: BufferId) {
    let (inputs, outputs) = (
        scene.tape.buffers[x.0].columns,
        scene.tape.buffers[hidden.0].columns,
    );
    let weight = scene.random_weight(dtype, outputs, inputs);
    scene.op(Op::MatMul(MatMul {
        x,
        weight,
        bias: None,
        scale: 1.0,
        activation: None,
        residual: Some(hidden),
        out: hidden,
    }));
}

/// Three sequences on shuffled pages: prefill of two, more of one beside the third, then decoding of all.
pub fn steps(scene: &Scene) -> Vec<Step> {
    let tables: Vec<Vec<u32>> = (0..SEQUENCES as u32)
        .map(|slot| (0..8).map(|page| (page * 7 + slot * 8 + 3) % 24).collect())
        .collect();
    let vocabulary = scene.tape.buffers[scene.tape.logits.0].columns as u32;
    let ranges: [&[(u32, u32, u32)]; 4] = [
        &[(0, 0, 5), (2, 0, 9)],
        &[(2, 9, 10), (1, 0, 11)],
        &[(0, 5, 6), (1, 11, 12), (2, 10, 11)],
        &[(1, 12, 13)],
    ];
    let step = |ranges: &[(u32, u32, u32)]| {
        let mut step = Step {
            tables: tables.clone(),
            ..Step::default()
        };
        for &(slot, from, to) in ranges {
            for position in from..to {
                step.tokens.push((slot * 37 + position * 11) % vocabulary);
                step.positions.push(position);
                step.slots.push(slot);
            }
            step.outputs.push(step.tokens.len() as u32 - 1);
        }
        step
    };
    ranges.map(step).into()
}
