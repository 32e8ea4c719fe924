//! The CPU's embedding, normalisation and selection of rows against the operations' references.

use decant::{
    exec::{Activations, Cpu, Reference},
    ops::{BufferId, Embed, Lookup, Norm, Op, SelectRows},
    tape::Step,
    tensor::DType,
};
use pollster::block_on;

use crate::support::{
    close::assert_close,
    scene::{Scene, plain_step},
};

/// Runs a scene on both executors and compares a buffer, with a tolerance for each value of the reference.
fn check(what: &str, scene: &Scene, step: &Step, out: BufferId, allowed: impl Fn(f64) -> f64) {
    block_on(async {
        let (mut reference, mut cpu) = (Reference::new(), Cpu::new(Activations::Q8));
        scene.load(&mut reference).await.unwrap();
        scene.load(&mut cpu).await.unwrap();
        let expected = scene.run(&reference, step, out).await.unwrap();
        let actual = scene.run(&cpu, step, out).await.unwrap();
        let allowed: Vec<_> = expected
            .iter()
            .map(|&e| allowed(f64::from(e).abs()))
            .collect();
        assert_close(what, &expected, &actual, &allowed);
    });
}

#[test]
fn rows_of_every_format() {
    for dtype in DType::ALL {
        for matrix_rows in [1, 2, 7, 8, 9, 37] {
            let columns = if dtype.block_len() == 1 { 300 } else { 512 };
            let mut scene = Scene::new(9, matrix_rows as u64);
            let weight = scene.random_weight(dtype, matrix_rows, columns);
            let out = scene.buffer("out", columns);
            let embed = Embed {
                weight,
                lookup: Lookup::Token,
                scale: 1.0,
                add: false,
                out,
            };
            scene.op(Op::Embed(embed));
            let step = Step {
                tokens: (0..9).map(|i| i * 5 % matrix_rows as u32).collect(),
                ..plain_step(9)
            };
            // A product and a sum where the reference has them as well.
            let what = format!("{} of {matrix_rows}", dtype.name());
            check(&what, &scene, &step, out, |e| e * 1e-7);
        }
    }
}

#[test]
fn scaled_rows_are_added_by_position() {
    let mut scene = Scene::new(4, 1);
    let values = scene.random.values(4 * 40, 1.0);
    let out = scene.input("out", 40, &values);
    let weight = scene.random_weight(DType::F16, 20, 40);
    scene.op(Op::Embed(Embed {
        weight,
        lookup: Lookup::Position,
        scale: 3.5,
        add: true,
        out,
    }));
    let step = Step {
        positions: vec![3, 1, 0, 2],
        ..plain_step(4)
    };
    check("embed", &scene, &step, out, |_| {
        6.0 * f64::from(f32::EPSILON)
    });
}

#[test]
fn norms_of_every_kind() {
    for (rows, columns, groups) in [
        (1, 1, 1),
        (3, 7, 1),
        (2, 576, 1),
        (5, 60, 5),
        (2, 96, 4),
        (1, 65, 1),
        (2, 256, 1),
    ] {
        for (centred, biased, add, whole) in [
            (false, false, false, true),
            (false, false, true, false),
            (true, true, false, false),
            (true, true, true, true),
        ] {
            for scale in [1.0, 1e15] {
                let mut scene = Scene::new(rows, (rows * 1000 + columns) as u64);
                let values = scene.random.values(rows * columns, scale);
                let x = scene.input("x", columns, &values);
                let size = if whole { columns } else { columns / groups };
                let weight = scene.random_weight(DType::F16, 1, size);
                let bias = biased.then(|| scene.random_weight(DType::F32, 1, size));
                let added = scene.random.values(rows * columns, 1.0);
                let out = scene.input("out", columns, &added);
                scene.op(Op::Norm(Norm {
                    x,
                    groups,
                    centred,
                    weight,
                    bias,
                    epsilon: 1e-5,
                    add,
                    out,
                }));
                // Sums of n terms are off by n·ε/2 relatively, taken away means by that of values up to √n
                // times as large as their deviation; then a root, a few products and sums of numbers up to
                // 1 and √n.
                let n = (columns / groups) as f64;
                let relative = (n / 4.0 + 12.0) * f64::from(f32::EPSILON) * n.sqrt();
                let what = format!("{rows}×{columns}/{groups} {centred} {biased} {add} {whole}");
                check(&what, &scene, &plain_step(rows), out, |e| {
                    (e + 3.0) * relative
                });
            }
        }
    }
}

#[test]
fn a_norm_in_place() {
    let mut scene = Scene::new(3, 8);
    let values = scene.random.values(3 * 24, 1.0);
    let x = scene.input("x", 24, &values);
    let weight = scene.random_weight(DType::F32, 1, 8);
    scene.op(Op::Norm(Norm {
        x,
        groups: 3,
        centred: false,
        weight,
        bias: None,
        epsilon: 1e-6,
        add: false,
        out: x,
    }));
    check("in place", &scene, &plain_step(3), x, |e| (e + 1.0) * 1e-6);
}

#[test]
fn chosen_rows() {
    let mut scene = Scene::new(6, 2);
    let values = scene.random.values(6 * 5, 1.0);
    let x = scene.input("x", 5, &values);
    let out = scene.buffer("out", 5);
    scene.tape.buffers[out.0].rows = decant::ops::Rows::Outputs;
    scene.op(Op::SelectRows(SelectRows { x, out }));
    let step = Step {
        outputs: vec![1, 4, 5],
        ..plain_step(6)
    };
    block_on(async {
        let mut cpu = Cpu::new(Activations::Q8);
        scene.load(&mut cpu).await.unwrap();
        let found = scene.run(&cpu, &step, out).await.unwrap();
        let rows = [1, 4, 5].map(|row| &values[row * 5..row * 5 + 5]);
        assert_eq!(found[..15], rows.concat());
    });
}
