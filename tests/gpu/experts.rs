//! The forms of the experts' products against their reference.

use decant::{
    exec::{Reference, gpu::GpuOptions},
    ops::{Activation, Experts, Op},
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

const FORMS: [&str; 2] = ["experts", "experts_workgroup"];

struct Case {
    dtype: DType,
    rows: usize,
    hidden: usize,
    width: usize,
    experts: usize,
    chosen: usize,
    activation: Activation,
}

fn check(options: GpuOptions, case: &Case) {
    let Some(mut gpu) = shared(options) else {
        return;
    };
    let &Case {
        rows,
        hidden,
        width,
        experts,
        chosen,
        ..
    } = case;
    let mut scene = Scene::new(rows, (rows * 31 + hidden * 7 + width) as u64);
    let x_values = scene.random.values(rows * hidden, 1.0);
    let x = scene.input("x", hidden, &x_values);
    let before = scene.random.values(rows * hidden, 1.0);
    let out = scene.input("out", hidden, &before);
    // Different experts for each slot of a row, the last expert among them.
    let mut route = Vec::new();
    for row in 0..rows {
        let first = scene.random.below(experts);
        route.extend((0..chosen).map(|slot| ((first + slot * (row % 3 + 1)) % experts) as f32));
        route.extend(scene.random.values(chosen, 1.0));
    }
    let route = scene.input("route", 2 * chosen, &route);
    let [gate, up] = [0, 1].map(|_| scene.random_weight(case.dtype, experts * width, hidden));
    // Rows of `width` values must be whole blocks.
    let plain = match width % case.dtype.block_len() {
        0 => case.dtype,
        _ => DType::F16,
    };
    let down = scene.random_weight(plain, experts * hidden, width);
    let gated = scene.buffer("gated", Experts::between(chosen, width));
    scene.op(Op::Experts(Experts {
        x,
        route,
        experts,
        gate,
        up,
        down,
        activation: case.activation,
        gated,
        out,
    }));
    let step = plain_step(rows);
    block_on(async {
        let mut reference = Reference::new();
        scene.load(&mut reference).await.unwrap();
        scene.load(&mut *gpu).await.unwrap();
        let expected = scene.run(&reference, &step, out).await.unwrap();
        let actual = scene.run(&*gpu, &step, out).await.unwrap();
        let what = format!(
            "{:?} {} {rows} rows, {hidden} × {width}, {chosen} of {experts}",
            options.forms,
            case.dtype.name()
        );
        assert_close(
            &what,
            &expected,
            &actual,
            &vec![tolerance(case); expected.len()],
        );
    });
}

/// What an output may differ by. Values are at most 1 in magnitude, quantised ones 3 with their parts apart.
///
/// A gate or other branch b is a sum of `hidden` products, at most `m = 3·hidden` in magnitude and off by
/// `(hidden + 7)·ε/2·m`. Typical branches are as large as a sum of random signs, below `4·√hidden`. Slopes
/// are at most 1.2; exp of at most 20 is off by 43 units. So what is gated is off by
/// `2.4 · 4·√hidden · (that + 50·ε)`, and `chosen · width` products of it and a value below 1 are added,
/// which round once more each.
fn tolerance(case: &Case) -> f64 {
    let eps = f64::from(f32::EPSILON);
    let (hidden, width) = (case.hidden as f64, case.width as f64);
    let branch = (hidden + 7.0) * eps / 2.0 * 3.0 * hidden.sqrt() * 4.0 + 50.0 * eps;
    let size = 16.0 * hidden;
    let terms = case.chosen as f64 * width;
    let gated = 2.4 * 4.0 * hidden.sqrt() * branch;
    terms.sqrt() * 4.0 * (gated + (terms.sqrt() + 8.0) * eps / 2.0 * size)
}

#[test]
fn every_form_and_format_over_tails() {
    for form in FORMS {
        for dtype in DType::ALL {
            for rows in [1, 5] {
                let case = Case {
                    dtype,
                    rows,
                    hidden: dtype.block_len().max(64),
                    width: 32,
                    experts: 5,
                    chosen: 2,
                    activation: Activation::Silu,
                };
                check(only(form), &case);
            }
        }
        for (hidden, width, experts, chosen) in
            [(1, 1, 1, 1), (7, 3, 3, 3), (48, 33, 8, 4), (130, 24, 16, 8)]
        {
            for rows in [1, 8, 21] {
                let case = Case {
                    dtype: DType::F32,
                    rows,
                    hidden,
                    width,
                    experts,
                    chosen,
                    activation: Activation::GeluTanh,
                };
                check(only(form), &case);
            }
        }
    }
}

#[test]
fn matrices_of_several_parts() {
    for form in FORMS {
        let options = GpuOptions {
            binding_limit: Some(16 << 10),
            ..only(form)
        };
        for dtype in [DType::F16, DType::Q4_0] {
            let case = Case {
                dtype,
                rows: 6,
                hidden: 96,
                width: 64,
                experts: 7,
                chosen: 3,
                activation: Activation::Silu,
            };
            check(options, &case);
        }
    }
}
