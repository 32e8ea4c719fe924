//! The gated linear layer against its reference.

use decant::{
    exec::{Reference, gpu::GpuOptions},
    ops::{Activation, GatedMatMul, Op},
    tensor::DType,
};
use pollster::block_on;

use crate::{
    matmul::FORMS,
    only, shared,
    support::{
        close::assert_close,
        scene::{Scene, plain_step},
    },
};

fn check(options: GpuOptions, dtype: DType, rows: usize, inputs: usize, outputs: usize) {
    check_with(
        options,
        dtype,
        [rows, inputs, outputs],
        Activation::Silu,
        false,
    );
}

fn check_with(
    options: GpuOptions,
    dtype: DType,
    [rows, inputs, outputs]: [usize; 3],
    activation: Activation,
    biased: bool,
) {
    let Some(mut gpu) = shared(options) else {
        return;
    };
    let mut scene = Scene::new(rows, (rows * 31 + inputs * 7 + outputs) as u64);
    let x_values = scene.random.values(rows * inputs, 1.0);
    let x = scene.input("x", inputs, &x_values);
    let gate = scene.random_weight(dtype, outputs, inputs);
    let up = scene.random_weight(dtype, outputs, inputs);
    let biases = [0, 1].map(|_| biased.then(|| scene.random_weight(DType::F32, 1, outputs)));
    let out = scene.buffer("out", outputs);
    scene.op(Op::GatedMatMul(GatedMatMul {
        x,
        gate,
        up,
        biases,
        activation,
        out,
    }));
    let [gates, ups] = [gate, up].map(|weight| scene.matrix(weight));
    let [gate_allowed, up_allowed] = [&gates, &ups]
        .map(|matrix| super::matmul::tolerances(dtype, &x_values, matrix, inputs, 2.0));
    let added = biases.map(|bias| bias.map(|bias| scene.matrix(bias)));
    let step = plain_step(rows);
    block_on(async {
        let mut reference = Reference::new();
        scene.load(&mut reference).await.unwrap();
        scene.load(&mut *gpu).await.unwrap();
        let expected = scene.run(&reference, &step, out).await.unwrap();
        let actual = scene.run(&*gpu, &step, out).await.unwrap();
        // Slopes are at most 1.2 and |activation(g)| ≤ |g|. Rounding of the activation: WGSL allows exp
        // 3 + 2·|g| units in the last place and division 2.5; the functions add a few, the error function
        // 1.5·10⁻⁷, which is 1.3 ε.
        let dot = |row: usize, matrix: &[f32], output: usize, branch: usize| -> f64 {
            let (x, w) = (
                &x_values[row * inputs..][..inputs],
                &matrix[output * inputs..][..inputs],
            );
            let bias = added[branch].as_ref().map_or(0.0, |b| f64::from(b[output]));
            let products = x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w));
            products.sum::<f64>() + bias
        };
        let allowed: Vec<f64> = (0..rows * outputs)
            .map(|i| {
                let (row, output) = (i / outputs, i % outputs);
                let (g, u) = (
                    dot(row, &gates, output, 0).abs(),
                    dot(row, &ups, output, 1).abs(),
                );
                let activation = f64::from(f32::EPSILON) * (10.0 + 2.0 * g) * g;
                1.2 * (gate_allowed[i] + activation) * (u + up_allowed[i])
                    + g * up_allowed[i]
                    + 1e-30
            })
            .collect();
        let what = format!(
            "{:?} {} {rows}×{inputs}→{outputs} {activation:?} {biased}",
            options.forms,
            dtype.name()
        );
        assert_close(&what, &expected, &actual, &allowed);
    });
}

#[test]
fn every_form_and_format_over_tails() {
    for form in FORMS {
        for dtype in DType::ALL {
            for outputs in [1, 8, 129] {
                check(only(form), dtype, 1, dtype.block_len().max(64), outputs);
            }
            for rows in [3, 4, 33] {
                check(
                    only(form),
                    dtype,
                    rows,
                    96usize.next_multiple_of(dtype.block_len()),
                    21,
                );
            }
        }
        check(only(form), DType::Q4_1, 1, 576, 1536);
        check(only(form), DType::F16, 6, 107, 48);
    }
}

#[test]
fn matrices_of_several_parts() {
    let options = GpuOptions {
        binding_limit: Some(16 << 10),
        ..Default::default()
    };
    check(options, DType::Q4_1, 5, 64, 700);
    check(options, DType::BF16, 2, 50, 300);
}

#[test]
fn every_activation_with_and_without_biases() {
    use Activation::{Gelu, GeluTanh, Relu, Silu};
    for form in FORMS {
        for activation in [Silu, Gelu, GeluTanh, Relu] {
            for biased in [false, true] {
                check_with(only(form), DType::F32, [5, 50, 33], activation, biased);
            }
        }
    }
}
