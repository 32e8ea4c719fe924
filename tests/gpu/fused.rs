//! Operations that run together against the same operations one by one, on the reference.

use decant::{
    exec::{
        Executor, Reference, TapeId,
        gpu::{Forms, Gpu, GpuOptions},
    },
    ops::{Activation, BufferId, GatedMatMul, Norm, Op, WeightId},
    tensor::DType,
};
use pollster::block_on;

use crate::{
    gpu, only,
    support::{
        close::assert_close,
        scene::{Scene, plain_step},
    },
};

pub const FORMS: [&str; 2] = ["matmul_fused_vector", "matmul_fused_workgroup"];
pub const EPS: f64 = f32::EPSILON as f64;

/// The root mean square of `x`.
pub fn norm(scene: &mut Scene, x: BufferId, name: &str) -> BufferId {
    let columns = scene.tape.buffers[x.0].columns;
    let gain = scene.random.values(columns, 1.0);
    let weight = scene.values(1, &gain);
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

/// What the fused kernels compute besides the products.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Product {
    Normed,
    NormedWithExtras,
    Gated,
    NormedAndGated,
}

/// Compares one product; the count of dispatches shows that it was a fused one.
fn check(gpu: &mut Gpu, product: Product, dtype: DType, rows: usize, shape: [usize; 2]) {
    let [inputs, outputs] = shape;
    let mut scene = Scene::new(rows, (rows * 31 + inputs * 7 + outputs) as u64);
    let values = scene.random.values(rows * inputs, 3.0);
    let x = scene.input("x", inputs, &values);
    let normed = match product {
        Product::Gated => x,
        _ => norm(&mut scene, x, "normed"),
    };
    let weight = scene.random_weight(dtype, outputs, inputs);
    let mut weights = vec![weight];
    let out = match product {
        Product::Normed | Product::NormedWithExtras => {
            let extras = product == Product::NormedWithExtras;
            let mut op = scene.matmul(normed, weight, "out");
            if extras {
                op.bias = Some(scene.random_weight(DType::F16, 1, outputs));
                op.scale = 0.25;
                op.activation = Some(Activation::SoftCap(3.0));
            }
            let out = op.out;
            scene.op(Op::MatMul(op));
            out
        }
        Product::Gated | Product::NormedAndGated => {
            let up = scene.random_weight(dtype, outputs, inputs);
            weights.push(up);
            let out = scene.buffer("out", outputs);
            scene.op(Op::GatedMatMul(GatedMatMul {
                x: normed,
                gate: weight,
                up,
                biases: [None, None],
                activation: Activation::Silu,
                out,
            }));
            out
        }
    };
    let step = plain_step(rows);
    block_on(async {
        let mut reference = Reference::new();
        scene.load(&mut reference).await.unwrap();
        scene.load(gpu).await.unwrap();
        let expected = scene.run(&reference, &step, out).await.unwrap();
        let before = gpu.counters();
        let actual = scene.run(gpu, &step, out).await.unwrap();
        let what = format!("{product:?} {} {rows}×{shape:?}", dtype.name());
        let dispatches = gpu.counters().dispatches - before.dispatches;
        let separate = scene.tape.ops.len() as u64 + u64::from(product == Product::Gated);
        assert!(dispatches < separate, "{what}: {dispatches} dispatches");
        let n = reference.read(TapeId(0), normed, rows).await.unwrap();
        let allowed = tolerances(&scene, product, &weights, &n);
        assert_close(&what, &expected, &actual, &allowed);
    });
}

/// The outputs of products of normalised rows `n` and what they may be off by, row after row.
///
/// A product of `inputs` values rounds as a sum does, with 6 roundings more a term for a dequantised
/// weight, whose own magnitude is at most 3 (see the tests of matmul). The norm's sum of squares is off by
/// (inputs + 1) · ε/2, its root by half of that and a few units.
fn products(scene: &Scene, weight: WeightId, n: &[f32]) -> Vec<(f64, f64)> {
    let dtype = scene.weights[weight.0].0.dtype;
    let inputs = scene.weights[weight.0].0.columns;
    let matrix = scene.matrix(weight);
    let allowed = crate::matmul::tolerances(dtype, n, &matrix, inputs, 0.0);
    let sums = n.chunks_exact(inputs).flat_map(|n| {
        let sum = |w: &[f32]| -> f64 {
            let products = n.iter().zip(w).map(|(&n, &w)| f64::from(n) * f64::from(w));
            products.sum()
        };
        matrix.chunks_exact(inputs).map(sum).collect::<Vec<_>>()
    });
    // As many roundings more as the norm has, of a sum that has `inputs + 7`.
    let roundings = (inputs + 7) as f64;
    let all = roundings + (inputs + 1) as f64 / 2.0 + 12.0;
    sums.zip(allowed.into_iter().map(|allowed| allowed * all / roundings))
        .collect()
}

/// What each output of each row may be off by. Silu of a gate g changes by 1.1 times the gate's error and
/// rounds by (10 + 2|g|) · ε of itself; what it multiplies, u, has an error of its own.
fn tolerances(scene: &Scene, product: Product, weights: &[WeightId], n: &[f32]) -> Vec<f64> {
    let first = products(scene, weights[0], n);
    match product {
        Product::Normed => first.into_iter().map(|(_, error)| error).collect(),
        // A bias of 1 at most, a quarter of the sum, and a cap of 3 by exp and two divisions.
        Product::NormedWithExtras => {
            let error = |(y, error): (f64, f64)| error / 4.0 + EPS * (y.abs() + 1.0) + 60.0 * EPS;
            first.into_iter().map(error).collect()
        }
        Product::Gated | Product::NormedAndGated => {
            let second = products(scene, weights[1], n);
            let pairs = first.into_iter().zip(second);
            let error = |((g, of_g), (u, of_u)): ((f64, f64), (f64, f64))| {
                let silu = (g / (1.0 + (-g).exp())).abs();
                let gate = 1.1 * of_g + (10.0 + 2.0 * g.abs()) * EPS * silu;
                gate * (u.abs() + of_u) + (silu + gate) * of_u + EPS * silu * u.abs() + 1e-30
            };
            pairs.map(error).collect()
        }
    }
}

const PRODUCTS: [Product; 4] = [
    Product::Normed,
    Product::NormedWithExtras,
    Product::Gated,
    Product::NormedAndGated,
];

#[test]
fn every_fused_product_and_format_over_tails() {
    for form in FORMS {
        let Some(mut gpu) = gpu(only(form)) else {
            return;
        };
        for dtype in DType::ALL {
            let inputs = dtype.block_len().max(96);
            for product in PRODUCTS {
                for (rows, outputs) in [(1, 16), (2, 112), (3, 32)] {
                    check(&mut gpu, product, dtype, rows, [inputs, outputs]);
                }
            }
            for outputs in [1, 7, 97, 193] {
                check(&mut gpu, Product::Normed, dtype, 1, [inputs, outputs]);
            }
        }
    }
}

#[test]
fn fused_products_of_columns_that_fill_no_block() {
    for form in FORMS {
        let Some(mut gpu) = gpu(only(form)) else {
            return;
        };
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for inputs in [1, 7, 40, 107] {
                // Only the first of two joined matrices has rows of whole vectors.
                check(&mut gpu, Product::Normed, dtype, 2, [inputs, 13]);
                check(&mut gpu, Product::NormedAndGated, dtype, 2, [inputs, 32]);
            }
        }
    }
}

#[test]
fn production_shapes() {
    for form in FORMS {
        let Some(mut gpu) = gpu(only(form)) else {
            return;
        };
        check(
            &mut gpu,
            Product::NormedAndGated,
            DType::Q4_1,
            1,
            [576, 1536],
        );
        check(
            &mut gpu,
            Product::NormedWithExtras,
            DType::Q8_0,
            1,
            [576, 960],
        );
    }
}

#[test]
fn what_is_read_again_is_not_left_out() {
    let Some(mut gpu) = gpu(GpuOptions::default()) else {
        return;
    };
    let mut scene = Scene::new(2, 1);
    let values = scene.random.values(2 * 32, 1.0);
    let x = scene.input("x", 32, &values);
    let normed = norm(&mut scene, x, "normed");
    let weights = [0, 1].map(|_| scene.random_weight(DType::F32, 8, 32));
    let first = scene.matmul(normed, weights[0], "first");
    let second = scene.matmul(normed, weights[1], "second");
    let outs = [first.out, second.out];
    scene.op(Op::MatMul(first));
    scene.op(Op::MatMul(second));
    let step = plain_step(2);
    block_on(async {
        let mut reference = Reference::new();
        scene.load(&mut reference).await.unwrap();
        scene.load(&mut gpu).await.unwrap();
        for (out, weight) in outs.into_iter().zip(weights) {
            let expected = scene.run(&reference, &step, out).await.unwrap();
            let actual = scene.run(&gpu, &step, out).await.unwrap();
            let n = reference.read(TapeId(0), normed, 2).await.unwrap();
            let allowed = tolerances(&scene, Product::Normed, &[weight], &n);
            assert_close("two readers", &expected, &actual, &allowed);
        }
        assert_eq!(gpu.counters().dispatches, 2 * 4);
    });
}

#[test]
fn separate_operations_on_request() {
    let options = GpuOptions {
        separate: true,
        forms: Forms::Preferred,
        ..Default::default()
    };
    let Some(mut gpu) = gpu(options) else { return };
    let mut scene = Scene::new(1, 1);
    let x = scene.input("x", 32, &[0.5; 32]);
    let normed = norm(&mut scene, x, "normed");
    let weight = scene.random_weight(DType::F32, 8, 32);
    let op = scene.matmul(normed, weight, "out");
    scene.op(Op::MatMul(op));
    block_on(async {
        scene.load(&mut gpu).await.unwrap();
        gpu.forward(TapeId(0), &plain_step(1)).await.unwrap();
        assert_eq!(gpu.counters().dispatches, 3);
        let found = gpu.read(TapeId(0), normed, 1).await.unwrap();
        assert!(found.iter().any(|&value| value != 0.0));
    });
}

#[test]
fn what_was_not_written_is_not_read() {
    let Some(mut gpu) = gpu(GpuOptions::default()) else {
        return;
    };
    let rows = 24;
    let mut scene = Scene::new(rows, 1);
    let values = scene.random.values(rows * 32, 1.0);
    let x = scene.input("x", 32, &values);
    let normed = norm(&mut scene, x, "normed");
    let weight = scene.random_weight(DType::F32, 8, 32);
    let op = scene.matmul(normed, weight, "out");
    let out = op.out;
    scene.op(Op::MatMul(op));
    let unused = scene.buffer("unused", 8);
    block_on(async {
        scene.load(&mut gpu).await.unwrap();
        let read = async |gpu: &Gpu, buffer, rows| gpu.read(TapeId(0), buffer, rows).await;
        assert!(read(&gpu, out, 1).await.is_err(), "before the first step");
        // One row is normalised on the way to the product, many are not.
        gpu.forward(TapeId(0), &plain_step(1)).await.unwrap();
        let error = read(&gpu, normed, 1).await.unwrap_err();
        assert!(error.to_string().contains("normed"), "{error}");
        assert!(read(&gpu, out, 1).await.is_ok());
        assert!(read(&gpu, out, 2).await.is_err(), "more than the step had");
        assert!(read(&gpu, unused, 1).await.is_err(), "nobody writes it");
        gpu.forward(TapeId(0), &plain_step(rows)).await.unwrap();
        let found = read(&gpu, normed, rows).await.unwrap();
        assert!(found.iter().any(|&value| value != 0.0));
        assert!(read(&gpu, out, rows + 1).await.is_err());
    });
}
