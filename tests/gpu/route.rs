//! `route.wgsl` against its reference.

use decant::{
    exec::Reference,
    ops::{Op, Route},
};
use pollster::block_on;

use crate::{
    gpu, only,
    support::{
        close::assert_close,
        scene::{Scene, plain_step},
    },
};

fn check(scores: &[f32], experts: usize, chosen: usize, normalise: bool) {
    let Some(mut gpu) = gpu(only("route")) else {
        return;
    };
    let rows = scores.len() / experts;
    let mut scene = Scene::new(rows, 1);
    let input = scene.input("scores", experts, scores);
    let out = scene.buffer("route", 2 * chosen);
    scene.op(Op::Route(Route {
        scores: input,
        normalise,
        out,
    }));
    let step = plain_step(rows);
    block_on(async {
        let mut reference = Reference::new();
        scene.load(&mut reference).await.unwrap();
        scene.load(&mut gpu).await.unwrap();
        let expected = scene.run(&reference, &step, out).await.unwrap();
        let actual = scene.run(&gpu, &step, out).await.unwrap();
        // Numbers are exact. WGSL allows exp 3 + 2·|x| units in the last place, |x| being at most 40 here, and
        // division 2.5; the sum rounds once a term.
        let relative = f64::from(f32::EPSILON) * (2.0 * 85.0 + experts as f64);
        let allowed: Vec<f64> = (expected.iter().enumerate())
            .map(|(i, &e)| match i / chosen % 2 {
                0 => 0.0,
                _ => f64::from(e) * relative + 1e-37,
            })
            .collect();
        let what = format!("{chosen} of {experts}, {rows} rows, {normalise}");
        assert_close(&what, &expected, &actual, &allowed);
    });
}

#[test]
fn any_number_of_experts_and_rows() {
    let mut random = crate::support::random::Random(5);
    for (experts, chosen) in [(1, 1), (2, 1), (4, 2), (5, 5), (33, 4), (64, 8), (128, 8)] {
        for rows in [1, 7, 8, 9, 67] {
            for normalise in [false, true] {
                let scores = random.values(rows * experts, 20.0);
                check(&scores, experts, chosen, normalise);
            }
        }
    }
}

#[test]
fn equal_scores_and_scores_far_apart() {
    let rows = [
        [1.0, 1.0, 1.0, 1.0, 1.0],
        [0.0, 2.0, 2.0, 0.0, 2.0],
        [-3e38, 0.0, -3e38, -3e38, -3e38],
        [3e38, 3e38, -3e38, 0.0, 3e38],
    ];
    for chosen in 1..=5 {
        for normalise in [false, true] {
            check(&rows.concat(), 5, chosen, normalise);
        }
    }
}
