//! The CPU's linear layers against the operations' references, with activations as they are and quantised.

use decant::{
    exec::{Activations, Cpu, Reference},
    ops::{Activation, GatedMatMul, MatMul, Op, matmul},
    tensor::DType,
};
use pollster::block_on;

use crate::support::{
    close::{assert_close, sum_tolerance},
    random::Random,
    scene::{Scene, plain_step},
};

/// What is asked of a layer.
#[derive(Debug, Clone, Copy)]
struct Case {
    dtype: DType,
    rows: usize,
    inputs: usize,
    outputs: usize,
    activations: Activations,
    bias: bool,
    scale: f32,
    activation: Option<Activation>,
    residual: Option<Residual>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Residual {
    Out,
    Other,
}

/// Formats that meet activations of 8 bits.
const EIGHTS: [DType; 3] = [DType::Q4_0, DType::Q4_1, DType::Q4_K];

const ALL: [Activations; 3] = [Activations::F32, Activations::Q16, Activations::Q8];

fn plain(dtype: DType, rows: usize, inputs: usize, outputs: usize) -> [Case; 3] {
    ALL.map(|activations| Case {
        dtype,
        rows,
        inputs,
        outputs,
        activations,
        bias: false,
        scale: 1.0,
        activation: None,
        residual: None,
    })
}

/// What the kernel is to multiply: `x`, or what is left of it after quantising, by the formula of
/// `max / most`.
fn seen(case: Case, x: &[f32]) -> Vec<f32> {
    // A single row is kept as numbers.
    let kept = case.outputs == 1 || case.dtype.block_len() == 1;
    let most = match case.activations {
        _ if kept => return x.to_vec(),
        Activations::F32 => return x.to_vec(),
        Activations::Q8 if EIGHTS.contains(&case.dtype) => 127.0,
        Activations::Q8 | Activations::Q16 => 32_639.0,
    };
    let blocks = x.chunks_exact(32).flat_map(|block| {
        let largest = block.iter().fold(0f32, |most, v| most.max(v.abs()));
        let inverse = most / largest;
        block
            .iter()
            .map(move |v| (v * inverse).round_ties_even() * (largest / most))
    });
    blocks.collect()
}

/// The magnitude of the sum of each output, quants and minimum of a weight counted apart.
fn magnitudes(dtype: DType, x: &[f32], matrix: &[f32], inputs: usize) -> Vec<f64> {
    // Of values with a minimum the two parts count, below 2 and 1 in these blocks.
    let part = |w: f32| match dtype {
        DType::F32 | DType::F16 | DType::BF16 | DType::Q8_0 | DType::Q4_0 => f64::from(w.abs()),
        _ => 3.0,
    };
    let rows = x.chunks_exact(inputs);
    let each = rows.flat_map(|x| {
        let weights = matrix.chunks_exact(inputs);
        weights.map(move |w| {
            x.iter()
                .zip(w)
                .map(|(&x, &w)| f64::from(x.abs()) * part(w))
                .sum()
        })
    });
    each.collect()
}

fn check(case: Case) {
    let Case {
        dtype,
        rows,
        inputs,
        outputs,
        ..
    } = case;
    let mut scene = Scene::new(rows, (rows * 31 + inputs * 7 + outputs) as u64);
    let x_values = scene.random.values(rows * inputs, 1.0);
    let x = scene.input("x", inputs, &x_values);
    let weight = scene.random_weight(dtype, outputs, inputs);
    let bias = case
        .bias
        .then(|| scene.random_weight(DType::F16, 1, outputs));
    let added = scene.random.values(rows * outputs, 4.0);
    let (residual, out) = match case.residual {
        None => (None, scene.buffer("out", outputs)),
        Some(Residual::Other) => {
            let residual = scene.input("residual", outputs, &added);
            (Some(residual), scene.buffer("out", outputs))
        }
        Some(Residual::Out) => {
            let out = scene.input("out", outputs, &added);
            (Some(out), out)
        }
    };
    scene.op(Op::MatMul(MatMul {
        x,
        weight,
        bias,
        scale: case.scale,
        activation: case.activation,
        residual,
        out,
    }));
    let seen = seen(case, &x_values);
    let mut expected = match case.residual {
        None => vec![0.0; rows * outputs],
        Some(_) => added,
    };
    let bias = bias.map(|bias| scene.matrix(bias));
    matmul::reference(
        &seen,
        scene.blocks(weight),
        bias.as_deref(),
        case.scale,
        case.activation,
        &mut expected,
    );
    let magnitudes = magnitudes(dtype, &seen, &scene.matrix(weight), inputs);
    let allowed: Vec<_> = magnitudes
        .iter()
        .map(|m| f64::from(case.scale.abs()) * sum_tolerance(inputs, 8, m + 1.0) * 1.2 + 4e-6)
        .collect();
    let found = block_on(async {
        let mut cpu = Cpu::new(case.activations);
        scene.load(&mut cpu).await.unwrap();
        scene.run(&cpu, &plain_step(rows), out).await.unwrap()
    });
    assert_close(&format!("{case:?}"), &expected, &found, &allowed);
}

#[test]
fn every_format_over_tails() {
    for dtype in DType::ALL {
        for outputs in [1, 2, 7, 8, 9, 20] {
            plain(dtype, 1, dtype.block_len().max(64), outputs)
                .into_iter()
                .for_each(check);
        }
        for rows in [2, 3, 4, 5, 6, 7, 8, 9, 33] {
            plain(dtype, rows, dtype.block_len().max(96), 11)
                .into_iter()
                .for_each(check);
        }
    }
}

#[test]
fn rows_together_give_the_bits_of_each_alone() {
    let (inputs, outputs) = (256, 11);
    let x = Random(3).values(9 * inputs, 1.0);
    for dtype in DType::ALL.into_iter().filter(|dtype| dtype.block_len() > 1) {
        for activations in [Activations::Q16, Activations::Q8] {
            let products = |x: &[f32]| {
                let rows = x.len() / inputs;
                let mut scene = Scene::new(rows, 5);
                let x = scene.input("x", inputs, x);
                let weight = scene.random_weight(dtype, outputs, inputs);
                let op = scene.matmul(x, weight, "out");
                let out = op.out;
                scene.op(Op::MatMul(op));
                block_on(async {
                    let mut cpu = Cpu::new(activations);
                    scene.load(&mut cpu).await.unwrap();
                    scene.run(&cpu, &plain_step(rows), out).await.unwrap()
                })
            };
            let alone: Vec<f32> = x.chunks_exact(inputs).flat_map(products).collect();
            for rows in 2..=9 {
                let together = products(&x[..rows * inputs]);
                let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                let alone = &alone[..rows * outputs];
                let what = format!("{rows} rows, {}, {activations:?}", dtype.name());
                assert_eq!(bits(&together), bits(alone), "{what}");
            }
        }
    }
}

#[test]
fn plain_formats_with_any_number_of_columns() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for inputs in [1, 3, 7, 9, 12, 107, 255, 256, 257, 515] {
            plain(dtype, 1, inputs, 13).into_iter().for_each(check);
            plain(dtype, 5, inputs, 13).into_iter().for_each(check);
        }
    }
}

#[test]
fn bias_scale_activation_and_residual() {
    for residual in [None, Some(Residual::Out), Some(Residual::Other)] {
        for bias in [false, true] {
            for activation in [None, Some(Activation::GeluTanh)] {
                for case in plain(DType::Q4_1, 6, 64, 19) {
                    check(Case {
                        bias,
                        scale: -0.5,
                        activation: activation.filter(|_| residual.is_none()),
                        residual,
                        ..case
                    });
                }
            }
        }
    }
}

#[test]
fn production_and_random_shapes() {
    let mut random = Random(7);
    for dtype in DType::ALL {
        // Wide enough for K-quants and more than one panel.
        plain(dtype, 1, 1536, 72).into_iter().for_each(check);
        plain(dtype, 21, 512, 40).into_iter().for_each(check);
        let inputs = (1 + random.below(12)) * dtype.block_len().max(2);
        plain(dtype, 1 + random.below(70), inputs, 1 + random.below(90))
            .into_iter()
            .for_each(check);
    }
}

#[test]
fn gated_layers() {
    for dtype in [DType::F32, DType::Q8_0, DType::Q4_1] {
        for (rows, outputs) in [(1, 16), (5, 19)] {
            for activations in ALL {
                let inputs = 96;
                let mut scene = Scene::new(rows, 9);
                let x_values = scene.random.values(rows * inputs, 1.0);
                let x = scene.input("x", inputs, &x_values);
                let [gate, up] = [0, 1].map(|_| scene.random_weight(dtype, outputs, inputs));
                let bias = scene.random_weight(DType::F32, 1, outputs);
                let out = scene.buffer("out", outputs);
                let op = GatedMatMul {
                    x,
                    gate,
                    up,
                    biases: [Some(bias), None],
                    activation: Activation::Silu,
                    out,
                };
                scene.op(Op::GatedMatMul(op));
                let case = Case {
                    activations,
                    ..plain(dtype, rows, inputs, outputs)[0]
                };
                let seen = seen(case, &x_values);
                let mut expected = vec![0.0; rows * outputs];
                decant::ops::gated_matmul::reference(
                    &seen,
                    scene.blocks(gate),
                    scene.blocks(up),
                    [Some(&scene.matrix(bias)), None],
                    Activation::Silu,
                    &mut expected,
                );
                let [g, u] = [gate, up].map(|w| magnitudes(dtype, &seen, &scene.matrix(w), inputs));
                let off = |m: f64| sum_tolerance(inputs, 8, m + 1.0);
                let allowed: Vec<_> = g
                    .iter()
                    .zip(&u)
                    // Silu's slope is at most 1.1, and its size that of its argument.
                    .map(|(&g, &u)| 1.1 * off(g) * (u + 1.0) + (g + 1.0) * (off(u) + 1e-6 * u))
                    .collect();
                let found = block_on(async {
                    let mut cpu = Cpu::new(activations);
                    scene.load(&mut cpu).await.unwrap();
                    scene.run(&cpu, &plain_step(rows), out).await.unwrap()
                });
                assert_close(&format!("gated {case:?}"), &expected, &found, &allowed);
            }
        }
    }
}

#[test]
fn quantised_activations_are_within_their_bound_of_the_exact_ones() {
    let mut scene = Scene::new(3, 4);
    let x_values = scene.random.values(3 * 256, 1.0);
    let x = scene.input("x", 256, &x_values);
    let weight = scene.random_weight(DType::Q4_0, 50, 256);
    let op = scene.matmul(x, weight, "out");
    let out = op.out;
    scene.op(Op::MatMul(op));
    let matrix = scene.matrix(weight);
    let allowed = |steps: f64| -> Vec<f64> {
        x_values
            .chunks_exact(256)
            .flat_map(|x| {
                matrix.chunks_exact(256).map(move |w| {
                    // Every value is off by half a scale at most: for 8 bits 1 / 254 of the largest.
                    let blocks = x.chunks_exact(32).zip(w.chunks_exact(32)).map(|(x, w)| {
                        let largest = x.iter().fold(0f32, |most, v| most.max(v.abs()));
                        f64::from(largest) / steps
                            * w.iter().map(|w| f64::from(w.abs())).sum::<f64>()
                    });
                    blocks.sum::<f64>() + 1e-4
                })
            })
            .collect()
    };
    for (activations, steps) in [(Activations::Q8, 254.0), (Activations::Q16, 65_278.0)] {
        block_on(async {
            let (mut reference, mut cpu) = (Reference::new(), Cpu::new(activations));
            scene.load(&mut reference).await.unwrap();
            scene.load(&mut cpu).await.unwrap();
            let expected = scene.run(&reference, &plain_step(3), out).await.unwrap();
            let found = scene.run(&cpu, &plain_step(3), out).await.unwrap();
            let allowed = allowed(steps);
            assert_close(&format!("{activations:?}"), &expected, &found, &allowed);
            assert_ne!(expected, found);
        });
    }
}

#[test]
fn halves_that_are_not_finite_stay_so() {
    let half = |value: f32| half::f16::from_f32(value).to_le_bytes();
    for rows in [1, 3] {
        let mut scene = Scene::new(rows, 6);
        let x = scene.input("x", 2, &[1.0, 2.0].repeat(rows));
        let values = [1.0, 2.0, f32::INFINITY, 1.0, f32::NAN, 1.0, 65_504.0, 3.0];
        let blocks: Vec<u8> = values.into_iter().flat_map(half).collect();
        let weight = scene.weight(DType::F16, 4, 2, blocks);
        let op = scene.matmul(x, weight, "out");
        let out = op.out;
        scene.op(Op::MatMul(op));
        let found = block_on(async {
            let mut cpu = Cpu::new(Activations::Q16);
            scene.load(&mut cpu).await.unwrap();
            scene.run(&cpu, &plain_step(rows), out).await.unwrap()
        });
        for row in found.chunks_exact(4) {
            assert_eq!([row[0], row[1], row[3]], [5.0, f32::INFINITY, 65_510.0]);
            assert!(row[2].is_nan(), "{row:?}");
        }
    }
}
