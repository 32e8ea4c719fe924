//! The forms of normalisation against their reference.

use decant::{
    exec::{Reference, gpu::GpuOptions},
    ops::{Norm, Op},
    tensor::DType,
};
use pollster::block_on;

use crate::{
    only, shared,
    support::{
        close::assert_close,
        scene::{Scene, plain_step},
    },
};

const FORMS: [&str; 2] = ["norm", "norm_workgroup"];

#[derive(Debug, Clone, Copy)]
struct Case {
    dtype: DType,
    rows: usize,
    groups: usize,
    /// Values of a group.
    size: usize,
    /// What values are multiplied by.
    scale: f32,
    /// What is added to them then.
    shift: f32,
    centred: bool,
    bias: bool,
    add: bool,
    /// Whether every group of a row has a weight of its own.
    wide: bool,
}

const PLAIN: Case = Case {
    dtype: DType::F32,
    rows: 1,
    groups: 1,
    size: 48,
    scale: 1.0,
    shift: 0.0,
    centred: false,
    bias: false,
    add: false,
    wide: false,
};

fn check(options: GpuOptions, case: Case) {
    let Some(mut gpu) = shared(options) else {
        return;
    };
    let Case { rows, size, .. } = case;
    let columns = case.groups * size;
    let mut scene = Scene::new(rows, (rows * 1000 + columns) as u64);
    let mut values = scene.random.values(rows * columns, case.scale);
    values.iter_mut().for_each(|value| *value += case.shift);
    let x = scene.input("x", columns, &values);
    let width = if case.wide { columns } else { size };
    let weight = scene.random_weight(case.dtype, 1, width);
    let bias = case.bias.then(|| scene.random_weight(case.dtype, 1, width));
    let before = scene.random.values(rows * columns, 4.0);
    let out = match case.add {
        true => scene.input("out", columns, &before),
        false => scene.buffer("out", columns),
    };
    scene.op(Op::Norm(Norm {
        x,
        groups: case.groups,
        centred: case.centred,
        weight,
        bias,
        epsilon: 1e-5,
        add: case.add,
        out,
    }));
    let step = plain_step(rows);
    let allowed = tolerances(&case, &values);
    block_on(async {
        let mut reference = Reference::new();
        scene.load(&mut reference).await.unwrap();
        scene.load(&mut *gpu).await.unwrap();
        let expected = scene.run(&reference, &step, out).await.unwrap();
        let actual = scene.run(&*gpu, &step, out).await.unwrap();
        let what = format!("{:?} {case:?}", options.forms);
        assert_close(&what, &expected, &actual, &allowed);
    });
}

/// The sum of squares is off by (size + 1)/2 · ε relatively, its root by half of that; division and root
/// (2.5 units each in WGSL) and the products add a few roundings. The mean is off by size/2 · ε times the
/// mean magnitude m; a value and, relatively, the root of the mean square s by as much over s. Bias and
/// what is added to are at most 1 and 4, and the sums round with them.
fn tolerances(case: &Case, values: &[f32]) -> Vec<f64> {
    let eps = f64::from(f32::EPSILON);
    let count = case.size as f64;
    let groups = values.chunks_exact(case.size).flat_map(|group| {
        let sum = |f: &dyn Fn(f64) -> f64| group.iter().map(|&v| f(f64::from(v))).sum::<f64>();
        let mean = if case.centred {
            sum(&|v| v) / count
        } else {
            0.0
        };
        let square = (sum(&|v| (v - mean).powi(2)) / count + 1e-5).sqrt();
        let mean_off = match case.centred {
            true => (count / 2.0 + 2.0) * eps * sum(&f64::abs) / count / square,
            false => 0.0,
        };
        let later = eps * (f64::from(u8::from(case.bias)) + 8.0 * f64::from(u8::from(case.add)));
        group
            .iter()
            .map(move |&v| {
                let y = ((f64::from(v) - mean) / square).abs();
                y * ((count / 4.0 + 8.0) * eps + mean_off) + mean_off + later + 1e-37
            })
            .collect::<Vec<_>>()
    });
    groups.collect()
}

#[test]
fn both_forms_over_tails() {
    for form in FORMS {
        for size in [1, 3, 4, 7, 63, 64, 65, 197, 576] {
            for centred in [false, true] {
                let bias = centred;
                check(
                    only(form),
                    Case {
                        size,
                        centred,
                        bias,
                        ..PLAIN
                    },
                );
            }
        }
        for rows in [2, 7, 8, 9, 29, 128] {
            check(only(form), Case { rows, ..PLAIN });
        }
    }
}

#[test]
fn groups_of_any_size() {
    for form in FORMS {
        for (groups, size) in [
            (1, 5),
            (2, 5),
            (3, 7),
            (4, 12),
            (3, 20),
            (9, 64),
            (2, 130),
            (13, 1),
        ] {
            for centred in [false, true] {
                for wide in [false, true] {
                    let case = Case {
                        rows: 5,
                        groups,
                        size,
                        centred,
                        wide,
                        bias: wide,
                        ..PLAIN
                    };
                    check(only(form), case);
                }
            }
        }
    }
}

#[test]
fn results_that_are_added() {
    for form in FORMS {
        for (groups, size) in [(1, 50), (3, 5)] {
            let case = Case {
                rows: 9,
                groups,
                size,
                add: true,
                ..PLAIN
            };
            check(only(form), case);
            check(
                only(form),
                Case {
                    centred: true,
                    bias: true,
                    ..case
                },
            );
        }
    }
}

#[test]
fn weights_of_every_plain_format() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        check(
            only("norm"),
            Case {
                dtype,
                rows: 3,
                size: 107,
                bias: true,
                ..PLAIN
            },
        );
    }
}

#[test]
fn squares_beyond_half_precision_and_means_beyond_the_spread() {
    for form in FORMS {
        for scale in [300.0, 1e15] {
            check(
                only(form),
                Case {
                    rows: 2,
                    size: 256,
                    scale,
                    ..PLAIN
                },
            );
        }
        // 30 times the spread; a tail that is no whole quad must not count as zeros less the mean.
        for size in [256, 257, 258, 259] {
            check(
                only(form),
                Case {
                    rows: 2,
                    size,
                    shift: 30.0,
                    centred: true,
                    ..PLAIN
                },
            );
        }
    }
}
