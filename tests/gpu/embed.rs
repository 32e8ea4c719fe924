//! `embed.wgsl` against its reference.

use decant::{
    exec::{Reference, gpu::GpuOptions},
    ops::{Embed, Lookup, Op},
    tape::Step,
    tensor::DType,
};
use pollster::block_on;

use crate::{
    only, shared,
    support::{close::assert_close, scene::Scene},
};

/// Looks tokens up on both executors; values are copied or dequantised by one or two roundings.
fn check(dtype: DType, vocabulary: usize, columns: usize, rows: usize, options: GpuOptions) {
    check_scaled(dtype, [vocabulary, columns, rows], options, 1.0, false);
}

/// With `positions`, the row of a table is added to the scaled row of the token.
fn check_scaled(
    dtype: DType,
    [vocabulary, columns, rows]: [usize; 3],
    options: GpuOptions,
    scale: f32,
    positions: bool,
) {
    let Some(mut gpu) = shared(options) else {
        return;
    };
    let mut scene = Scene::new(rows, (vocabulary * columns + rows) as u64);
    let weight = scene.random_weight(dtype, vocabulary, columns);
    let out = scene.buffer("out", columns);
    scene.op(Op::Embed(Embed {
        weight,
        lookup: Lookup::Token,
        scale,
        add: false,
        out,
    }));
    if positions {
        let weight = scene.random_weight(dtype, vocabulary, columns);
        scene.op(Op::Embed(Embed {
            weight,
            lookup: Lookup::Position,
            scale: 1.0,
            add: true,
            out,
        }));
    }
    let tokens = (0..rows)
        .map(|_| scene.random.below(vocabulary) as u32)
        .collect();
    let step = Step {
        tokens,
        ..crate::support::scene::plain_step(rows)
    };
    block_on(async {
        let mut reference = Reference::new();
        scene.load(&mut reference).await.unwrap();
        scene.load(&mut *gpu).await.unwrap();
        let expected = scene.run(&reference, &step, out).await.unwrap();
        let actual = scene.run(&*gpu, &step, out).await.unwrap();
        // At most two roundings, of a product and a sum of magnitude 2 at most; with a factor, one more and
        // as much larger; with positions, as much again and a sum.
        let epsilon = f64::from(f32::EPSILON);
        let rounding = match dtype.block_len() {
            1 => 0.0,
            _ => 4.0 * epsilon,
        };
        let rounding = match scale == 1.0 {
            true => rounding,
            false => (rounding + 2.0 * epsilon) * f64::from(scale),
        };
        let rounding = match positions {
            true => 2.0 * rounding + (2.0 + 2.0 * f64::from(scale)) * epsilon,
            false => rounding,
        };
        let what = format!(
            "{} {vocabulary}×{columns}, {rows} rows, {scale}, {positions}",
            dtype.name()
        );
        assert_close(&what, &expected, &actual, &vec![rounding; expected.len()]);
    });
}

#[test]
fn every_format_and_tail() {
    for dtype in DType::ALL {
        let block = dtype.block_len();
        for rows in [1, 3, 17] {
            check(dtype, 50, 3 * block.max(8), rows, only("embed"));
        }
        check(
            dtype,
            1000,
            576usize.next_multiple_of(block),
            65,
            only("embed"),
        );
    }
}

#[test]
fn rows_that_fill_no_octet() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for columns in [1, 2, 5, 7, 12, 107] {
            check(dtype, 33, columns, 9, only("embed"));
        }
    }
}

#[test]
fn a_matrix_of_several_parts() {
    for dtype in DType::ALL {
        let options = GpuOptions {
            binding_limit: Some(64 << 10),
            ..Default::default()
        };
        check(
            dtype,
            3000,
            96usize.next_multiple_of(dtype.block_len()),
            40,
            options,
        );
    }
}

#[test]
fn scaled_rows_and_learned_positions() {
    for dtype in DType::ALL {
        for positions in [false, true] {
            let columns = 96usize.next_multiple_of(dtype.block_len());
            check_scaled(dtype, [70, columns, 37], only("embed"), 6.9282, positions);
        }
    }
    check_scaled(DType::F16, [70, 13, 9], only("embed"), 1.0, true);
    let parts = GpuOptions {
        binding_limit: Some(64 << 10),
        ..Default::default()
    };
    check_scaled(DType::F32, [900, 96, 40], parts, 0.5, true);
}
