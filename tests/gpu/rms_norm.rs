//! The forms of RMS normalisation against their reference.

use decant::{
    exec::{Reference, gpu::GpuOptions},
    ops::{Op, RmsNorm},
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

fn check(options: GpuOptions, dtype: DType, rows: usize, columns: usize, scale: f32) {
    let Some(mut gpu) = gpu(options) else { return };
    let mut scene = Scene::new(rows, (rows * 1000 + columns) as u64);
    let values = scene.random.values(rows * columns, scale);
    let x = scene.input("x", columns, &values);
    let weight = scene.random_weight(dtype, 1, columns);
    let out = scene.buffer("out", columns);
    scene.op(Op::RmsNorm(RmsNorm {
        x,
        weight,
        epsilon: 1e-5,
        out,
    }));
    let step = plain_step(rows);
    block_on(async {
        let mut reference = Reference::new();
        scene.load(&mut reference).await.unwrap();
        scene.load(&mut gpu).await.unwrap();
        let expected = scene.run(&reference, &step, out).await.unwrap();
        let actual = scene.run(&gpu, &step, out).await.unwrap();
        // The sum of squares is off by (columns + 1)/2 · ε relatively, its root by half of that; division and
        // root (2.5 units each in WGSL) and two products add a few roundings.
        let relative = (columns as f64 / 4.0 + 8.0) * f64::from(f32::EPSILON);
        let allowed: Vec<f64> = expected
            .iter()
            .map(|e| f64::from(e.abs()) * relative + 1e-37)
            .collect();
        let what = format!("{:?} {} {rows}×{columns}", options.forms, dtype.name());
        assert_close(&what, &expected, &actual, &allowed);
    });
}

#[test]
fn both_forms_over_tails() {
    for form in ["rms_norm", "rms_norm_workgroup"] {
        for columns in [1, 3, 4, 7, 63, 64, 65, 197, 576] {
            check(only(form), DType::F32, 1, columns, 1.0);
        }
        for rows in [2, 7, 8, 9, 29, 128] {
            check(only(form), DType::F32, rows, 48, 1.0);
        }
    }
}

#[test]
fn weights_of_every_plain_format() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        check(only("rms_norm"), dtype, 3, 107, 1.0);
    }
}

#[test]
fn squares_beyond_half_precision() {
    for form in ["rms_norm", "rms_norm_workgroup"] {
        check(only(form), DType::F32, 2, 256, 300.0);
        check(only(form), DType::F32, 2, 256, 1e15);
    }
}
