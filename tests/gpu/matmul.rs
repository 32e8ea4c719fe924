//! The forms of matrix multiplication against their reference.

use decant::{
    exec::{Reference, gpu::GpuOptions},
    ops::{Activation, MatMul, Op},
    tensor::DType,
};
use pollster::block_on;

use crate::{
    gpu, only, shared,
    support::{
        close::{assert_close, sum_tolerance},
        random::Random,
        scene::{Scene, plain_step},
    },
};

pub const FORMS: [&str; 7] = [
    "matmul_vector",
    "matmul_tile",
    "matmul_batch",
    "matmul_workgroup",
    "matmul_rows",
    "matmul_shared",
    "matmul_broadcast",
];

/// What happens to the product.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Extras {
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

const NONE: Extras = Extras {
    bias: false,
    scale: 1.0,
    activation: None,
    residual: None,
};

fn check(
    options: GpuOptions,
    dtype: DType,
    rows: usize,
    inputs: usize,
    outputs: usize,
    extras: Extras,
) {
    let Some(mut gpu) = shared(options) else {
        return;
    };
    let mut scene = Scene::new(rows, (rows * 31 + inputs * 7 + outputs) as u64);
    let x_values = scene.random.values(rows * inputs, 1.0);
    let x = scene.input("x", inputs, &x_values);
    let weight = scene.random_weight(dtype, outputs, inputs);
    let bias = extras
        .bias
        .then(|| scene.random_weight(DType::F16, 1, outputs));
    let added = scene.random.values(rows * outputs, 4.0);
    let (residual, out) = match extras.residual {
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
        scale: extras.scale,
        activation: extras.activation,
        residual,
        out,
    }));
    let matrix = scene.matrix(weight);
    let mut allowed = tolerances(dtype, &x_values, &matrix, inputs, 6.0);
    // Products and bias are multiplied by the scale, the residual is not.
    let factor = f64::from(extras.scale.max(1.0));
    allowed.iter_mut().for_each(|allowed| *allowed *= factor);
    let step = plain_step(rows);
    block_on(async {
        let mut reference = Reference::new();
        scene.load(&mut reference).await.unwrap();
        scene.load(&mut *gpu).await.unwrap();
        let expected = scene.run(&reference, &step, out).await.unwrap();
        let actual = scene.run(&*gpu, &step, out).await.unwrap();
        if let Some(activation) = extras.activation {
            activated(activation, &expected, &mut allowed);
        }
        let what = format!(
            "{:?} {} {rows}×{inputs}→{outputs} {extras:?}",
            options.forms,
            dtype.name()
        );
        assert_close(&what, &expected, &actual, &allowed);
    });
}

/// Widens the tolerances of products to those of their activations.
///
/// Slopes are at most 1.2, that of the square 2·√square. WGSL allows exp 3 + 2·|x| units in the last place
/// and division 2.5, and the functions add a few; products here are below 60 in magnitude, and where exp
/// matters below 20. The error function is off by 1.5·10⁻⁷, for which a product of 60 counts half.
fn activated(activation: Activation, expected: &[f32], allowed: &mut [f64]) {
    let epsilon = f64::from(f32::EPSILON);
    for (allowed, &y) in allowed.iter_mut().zip(expected) {
        let y = f64::from(y.abs());
        let (slope, own) = match activation {
            Activation::ReluSquared => (2.0 * y.sqrt() + *allowed, 2.0 * epsilon * y),
            Activation::Relu => (1.0, 0.0),
            Activation::SoftCap(cap) => (1.0, f64::from(cap) * 50.0 * epsilon),
            Activation::Silu => (1.2, (y + 1.0) * 50.0 * epsilon),
            Activation::Gelu | Activation::GeluTanh => (1.2, (y + 1.0) * 50.0 * epsilon),
        };
        *allowed = *allowed * slope + own + 1e-30;
    }
}

/// One for each output of each row. Quantised kernels may add a block's products of quants before they
/// scale them, so the magnitude of a value is that of scale · level and minimum apart, at most 2 + 1 in
/// [`random_blocks`](crate::support::scene::random_blocks). `added`: the magnitude of bias and residual.
pub fn tolerances(dtype: DType, x: &[f32], matrix: &[f32], inputs: usize, added: f64) -> Vec<f64> {
    let rows = x.chunks_exact(inputs);
    let each = rows.flat_map(|x| {
        matrix.chunks_exact(inputs).map(move |w| {
            let products = x.iter().zip(w).map(|(&x, &w)| {
                let w = match dtype {
                    DType::F32 | DType::F16 | DType::BF16 | DType::Q8_0 => f64::from(w.abs()),
                    _ => 3.0,
                };
                f64::from(x.abs()) * w
            });
            sum_tolerance(inputs, 6, products.sum::<f64>() + added)
        })
    });
    each.collect()
}

#[test]
fn every_form_and_format_over_tails() {
    for form in FORMS {
        for dtype in DType::ALL {
            // Outputs around one, a thread's 8, and a workgroup's 128.
            for outputs in [1, 7, 8, 9, 127, 128, 129, 389] {
                check(
                    only(form),
                    dtype,
                    1,
                    dtype.block_len().max(64),
                    outputs,
                    NONE,
                );
            }
            // Rows around a thread's 4 and a workgroup's 32.
            for rows in [2, 3, 4, 5, 31, 32, 33, 101] {
                check(only(form), dtype, rows, dtype.block_len().max(32), 20, NONE);
            }
        }
    }
}

#[test]
fn plain_formats_with_columns_that_fill_no_octet() {
    for form in FORMS {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for inputs in [1, 3, 7, 9, 12, 48, 107] {
                check(only(form), dtype, 5, inputs, 13, NONE);
            }
        }
    }
}

#[test]
fn bias_and_residual() {
    for form in FORMS {
        for residual in [None, Some(Residual::Out), Some(Residual::Other)] {
            for bias in [false, true] {
                check(
                    only(form),
                    DType::Q4_1,
                    6,
                    64,
                    75,
                    Extras {
                        bias,
                        residual,
                        ..NONE
                    },
                );
            }
        }
    }
}

#[test]
fn scaled_and_activated() {
    use Activation::{Gelu, GeluTanh, Relu, ReluSquared, Silu, SoftCap};
    for form in FORMS {
        for residual in [Residual::Out, Residual::Other] {
            let extras = Extras {
                bias: true,
                scale: 0.6,
                residual: Some(residual),
                ..NONE
            };
            check(only(form), DType::F32, 6, 64, 75, extras);
            let scale = 7.5;
            check(
                only(form),
                DType::Q8_0,
                6,
                64,
                75,
                Extras { scale, ..extras },
            );
        }
        for activation in [Silu, Gelu, GeluTanh, Relu, ReluSquared, SoftCap(4.0)] {
            for scale in [1.0, 0.25] {
                let extras = Extras {
                    bias: true,
                    scale,
                    activation: Some(activation),
                    ..NONE
                };
                check(only(form), DType::F32, 7, 48, 75, extras);
            }
        }
    }
}

#[test]
fn production_and_random_shapes() {
    for form in FORMS {
        for dtype in DType::ALL {
            let inputs = 576usize.next_multiple_of(dtype.block_len());
            check(only(form), dtype, 1, inputs, 1536, NONE);
            check(only(form), dtype, 40, inputs, 192, NONE);
        }
        let mut random = Random(7);
        for _ in 0..16 {
            let dtype = DType::ALL[random.below(DType::ALL.len())];
            let most = if dtype.block_len() > 32 { 3 } else { 12 };
            let inputs = (1 + random.below(most)) * dtype.block_len().max(2);
            check(
                only(form),
                dtype,
                1 + random.below(70),
                inputs,
                1 + random.below(300),
                NONE,
            );
        }
    }
}

#[test]
fn a_matrix_of_several_parts() {
    // A format for each way in which blocks share words.
    let formats = [
        DType::F32,
        DType::BF16,
        DType::Q8_0,
        DType::Q4_1,
        DType::Q5_0,
        DType::Q5_1,
        DType::Q3_K,
        DType::Q6_K,
        DType::IQ4_XS,
    ];
    for dtype in formats {
        let options = GpuOptions {
            binding_limit: Some(40 << 10),
            ..Default::default()
        };
        let extras = Extras {
            bias: true,
            residual: Some(Residual::Out),
            ..NONE
        };
        let inputs = 96usize.next_multiple_of(dtype.block_len());
        check(options, dtype, 3, inputs, 1000, extras);
        check(options, dtype, 9, inputs, 1000, extras);
    }
}

/// As many outputs as vocabularies have, up to one a workgroup and above what a dimension takes: 65,535 workgroups.
#[test]
fn more_than_65535_workgroups() {
    for form in FORMS {
        let forms = decant::exec::gpu::Forms::Named(form);
        let options = GpuOptions {
            forms,
            ..Default::default()
        };
        // Those of four outputs a workgroup pass the limit at 262,140.
        for outputs in [65_535, 65_536, 65_537, 151_936, 262_140, 262_141, 262_144] {
            check(options, DType::F32, 1, 4, outputs, NONE);
        }
    }
}

#[test]
fn partial_sums_beyond_half_precision() {
    // x = 32 everywhere, w = 32 then −32: the partial sum is 131,072, the total 0. With w = 32 everywhere the
    // total is 262,144, which an output must hold.
    for form in FORMS {
        let Some(mut gpu) = gpu(only(form)) else {
            return;
        };
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let mut scene = Scene::new(4, 0);
            let x = scene.input("x", 256, &[32.0; 1024]);
            let value = |i: usize| if (128..256).contains(&i) { -32.0 } else { 32.0 };
            let blocks = (0..512).flat_map(|i| match dtype {
                DType::F32 => f32::to_le_bytes(value(i)).to_vec(),
                DType::F16 => half::f16::from_f32(value(i)).to_le_bytes().to_vec(),
                _ => half::bf16::from_f32(value(i)).to_le_bytes().to_vec(),
            });
            let blocks: Vec<u8> = blocks.collect();
            let weight = scene.weight(dtype, 2, 256, blocks);
            let op = scene.matmul(x, weight, "out");
            let out = op.out;
            scene.op(Op::MatMul(op));
            let step = plain_step(4);
            let found = block_on(async {
                scene.load(&mut gpu).await.unwrap();
                scene.run(&gpu, &step, out).await.unwrap()
            });
            assert_eq!(found, [0.0, 262_144.0].repeat(4), "{form} {}", dtype.name());
        }
    }
}

#[test]
fn what_is_added_to_is_not_rounded_on_the_way() {
    for form in FORMS {
        let Some(mut gpu) = shared(only(form)) else {
            return;
        };
        let (rows, outputs) = (5, 40);
        let mut scene = Scene::new(rows, 4);
        let x = scene.input("x", 64, &[0.0; 5 * 64]);
        let weight = scene.random_weight(DType::Q8_0, outputs, 64);
        let before = scene.random.values(rows * outputs, 1.0);
        let out = scene.input("out", outputs, &before);
        scene.op(Op::MatMul(MatMul {
            x,
            weight,
            bias: None,
            scale: 0.3,
            activation: None,
            residual: Some(out),
            out,
        }));
        let found = block_on(async {
            scene.load(&mut *gpu).await.unwrap();
            scene.run(&*gpu, &plain_step(rows), out).await.unwrap()
        });
        assert_eq!(found, before, "{form}");
    }
}
