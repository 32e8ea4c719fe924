//! A whole forward pass on both executors: every intermediate buffer, ragged batches, forked pages.

use decant::{
    exec::{
        Allocation, Counters, Executor, Reference, TapeId,
        gpu::{Forms, Gpu, GpuOptions},
    },
    ops::{BufferId, CacheType, Rows},
    tape::{Step, Tape},
};
use pollster::block_on;

use crate::{
    gpu,
    support::{
        close::assert_close,
        scene::Scene,
        transformer::{ODD, QUANTISED, Sizes, steps, transformer},
    },
};

/// Rounding grows along the tape: every operation before a buffer adds about `terms · ε/2` of the
/// buffer's magnitude, and norms and projections pass it on. An F16 cache may round an entry the other
/// way where the two executors differ in the last place.
fn tolerances(sizes: &Sizes, values: &[f32], ops_before: usize) -> Vec<f64> {
    let magnitude = values.iter().fold(0f32, |max, v| max.max(v.abs()));
    let terms = sizes.hidden.max(sizes.feed_forward) as f64;
    let half = match sizes.cache {
        CacheType::F32 => 0.0,
        CacheType::F16 => 2f64.powi(-11),
    };
    let allowed =
        ops_before as f64 * (terms * f64::from(f32::EPSILON) + half) * f64::from(magnitude);
    vec![allowed; values.len()]
}

/// What runs on a GPU that nobody has measured.
const AS_GPU: GpuOptions = GpuOptions {
    binding_limit: None,
    group_limit: None,
    memory_limit: None,
    forms: Forms::Preferred,
    separate: false,
    plain: false,
    as_gpu: true,
};

fn compare(sizes: &Sizes, options: GpuOptions) {
    let options = GpuOptions {
        separate: true,
        ..options
    };
    let Some(mut gpu) = gpu(options) else { return };
    let scene = transformer(sizes, 24);
    let ops = scene.tape.ops.len();
    block_on(async {
        let mut reference = Reference::new();
        scene.load(&mut reference).await.unwrap();
        scene.load(&mut gpu).await.unwrap();
        for (number, step) in steps(&scene).iter().enumerate() {
            let expected = reference.forward(TapeId(0), step).await.unwrap();
            let actual = gpu.forward(TapeId(0), step).await.unwrap();
            assert_close(
                &format!("{:?}, step {number}: logits", options.forms),
                &expected,
                &actual,
                &tolerances(sizes, &expected, ops),
            );
            for (i, spec) in scene.tape.buffers.iter().enumerate() {
                let rows = match spec.rows {
                    Rows::Tokens => step.tokens.len(),
                    Rows::Outputs => step.outputs.len(),
                };
                let expected = reference.read(TapeId(0), BufferId(i), rows).await.unwrap();
                let actual = gpu.read(TapeId(0), BufferId(i), rows).await.unwrap();
                let what = format!("{:?}, step {number}: {}", options.forms, spec.name);
                assert_close(
                    &what,
                    &expected,
                    &actual,
                    &tolerances(sizes, &expected, ops),
                );
            }
        }
    });
}

#[test]
fn every_intermediate_buffer_equals_the_reference() {
    for sizes in [ODD, QUANTISED] {
        let forms = [
            Forms::Measured,
            Forms::Preferred,
            Forms::Named("matmul_vector"),
            Forms::Named("matmul_workgroup"),
            Forms::Named("matmul_rows"),
            Forms::Named("matmul_shared"),
        ];
        for forms in forms {
            let options = GpuOptions {
                forms,
                ..Default::default()
            };
            compare(&sizes, options);
        }
        compare(&sizes, AS_GPU);
        let options = GpuOptions {
            binding_limit: Some(12 << 10),
            group_limit: Some(5),
            ..Default::default()
        };
        compare(&sizes, options);
    }
}

#[test]
fn a_decode_step_takes_few_dispatches() {
    let expect = [
        // Heads of 9 values and matrices of 53 rows have no joint forms.
        (ODD, 1 + 2 * (1 + 3 + 1 + 1 + 1 + 1 + 2 + 1) + 2),
        (QUANTISED, 1 + 2 * 6 + 2),
    ];
    // On a GPU few rows share what is read of a weight, which no joint form does.
    let options = [(GpuOptions::default(), 3), (AS_GPU, 1)];
    let cases = expect
        .iter()
        .flat_map(|expect| options.map(|options| (expect, options)));
    for ((sizes, dispatches), (options, few)) in cases {
        let Some(mut gpu) = gpu(options) else {
            return;
        };
        let scene = transformer(sizes, 24);
        let ops = scene.tape.ops.len();
        let mut reference = Reference::new();
        block_on(scene.load(&mut reference)).unwrap();
        block_on(scene.load(&mut gpu)).unwrap();
        for (number, step) in steps(&scene).iter().enumerate() {
            let expected = logits(&reference, step);
            let before = gpu.counters();
            let actual = logits(&gpu, step);
            let allowed = tolerances(sizes, &expected, ops);
            assert_close(&format!("step {number}"), &expected, &actual, &allowed);
            if step.tokens.len() <= few {
                let found = gpu.counters().dispatches - before.dispatches;
                assert_eq!(found, *dispatches, "step {number}");
            }
        }
    }
}

/// Runs `step` and returns its logits.
fn logits(executor: &impl Executor, step: &Step) -> Vec<f32> {
    block_on(executor.forward(TapeId(0), step)).unwrap()
}

#[test]
fn a_fork_writes_to_its_own_copy_of_a_page() {
    for sizes in [ODD, QUANTISED] {
        let Some(mut gpu) = gpu(GpuOptions::default()) else {
            return;
        };
        let scene = transformer(&sizes, 24);
        block_on(scene.load(&mut gpu)).unwrap();
        let step = |slots: &[u32], from: u32, to: u32, tables: &[&[u32]]| Step {
            tokens: slots
                .iter()
                .flat_map(|&slot| (from..to).map(move |p| p * 3 + slot))
                .collect(),
            positions: slots.iter().flat_map(|_| from..to).collect(),
            slots: slots
                .iter()
                .flat_map(|&slot| (from..to).map(move |_| slot))
                .collect(),
            outputs: (1..=slots.len() as u32)
                .map(|n| n * (to - from) - 1)
                .collect(),
            tables: tables.iter().map(|table| table.to_vec()).collect(),
            angles: Vec::new(),
        };
        // Sequence 0 fills one page and half of the next; sequence 1 shares the first and copies the second.
        logits(&gpu, &step(&[0], 0, 6, &[&[2, 9]]));
        gpu.copy_page(9, 17).unwrap();
        let both = logits(&gpu, &step(&[0, 1], 6, 7, &[&[2, 9], &[2, 17]]));
        // The same from the start, on other pages.
        logits(&gpu, &step(&[0], 0, 6, &[&[4, 5]]));
        let first = logits(&gpu, &step(&[0], 6, 7, &[&[4, 5]]));
        let mut other = step(&[1], 6, 7, &[&[], &[6, 7]]);
        logits(
            &gpu,
            &Step {
                tables: vec![vec![6, 7]],
                ..step(&[0], 0, 6, &[])
            },
        );
        other.slots = vec![0];
        other.tables = vec![vec![6, 7]];
        let second = logits(&gpu, &other);
        let alone = [first, second].concat();
        assert_close(
            "a fork",
            &alone,
            &both,
            &tolerances(&sizes, &alone, scene.tape.ops.len()),
        );
        let vocabulary = sizes.vocabulary;
        assert_ne!(
            both[..vocabulary],
            both[vocabulary..],
            "the two differ in their last token"
        );
    }
}

#[test]
fn a_step_costs_one_submit_and_its_dispatches() {
    let Some(mut gpu) = gpu(GpuOptions::default()) else {
        return;
    };
    let scene = transformer(&QUANTISED, 24);
    block_on(scene.load(&mut gpu)).unwrap();
    let step = &steps(&scene)[0];
    logits(&gpu, step);
    let (before, bytes) = (gpu.counters(), gpu.allocated_bytes());
    for _ in 0..5 {
        logits(&gpu, step);
    }
    let after = gpu.counters();
    // A dispatch for every operation and one more for each of the two layers' gates and attention.
    let dispatches = scene.tape.ops.len() as u64 + 4;
    // 4 words of counts, 4 for each of up to 24 rows, 3 first rows of angles, 3 tables of 8 pages.
    let uploaded = 4 * (4 + 4 * 24 + 3 + 3 * 8);
    let expected = Counters {
        forwards: before.forwards + 5,
        dispatches: before.dispatches + 5 * dispatches,
        submits: before.submits + 5,
        bytes_uploaded: before.bytes_uploaded + 5 * uploaded,
        // Rows of 100 logits are read with their filling, to 128.
        bytes_read: before.bytes_read + 5 * 2 * 128 * 4,
    };
    assert_eq!(after, expected);
    assert_eq!(gpu.allocated_bytes(), bytes, "a step makes no buffer");
}

#[test]
fn steps_in_flight_end_in_any_order_or_not_at_all() {
    let Some(mut gpu) = gpu(GpuOptions::default()) else {
        return;
    };
    let scene = transformer(&QUANTISED, 24);
    block_on(scene.load(&mut gpu)).unwrap();
    let steps = steps(&scene);
    let one = logits(&gpu, &steps[0]);
    let two = logits(&gpu, &steps[1]);
    let (first, second) = (
        gpu.forward(TapeId(0), &steps[0]),
        gpu.forward(TapeId(0), &steps[1]),
    );
    assert_eq!(block_on(second).unwrap(), two);
    assert_eq!(block_on(first).unwrap(), one);
    let bytes = gpu.allocated_bytes();
    for _ in 0..10 {
        drop(gpu.forward(TapeId(0), &steps[0]));
    }
    assert_eq!(logits(&gpu, &steps[0]), one);
    assert_eq!(
        gpu.allocated_bytes(),
        bytes,
        "an abandoned read gives its buffer back"
    );
}

#[test]
fn two_tapes_share_weights_and_cache() {
    let Some(mut gpu) = gpu(GpuOptions::default()) else {
        return;
    };
    let scene = transformer(&QUANTISED, 24);
    let small = Tape {
        max_rows: 1,
        max_outputs: 1,
        ..scene.tape.clone()
    };
    let steps = steps(&scene);
    block_on(async {
        load_tapes(&scene, &mut gpu, vec![scene.tape.clone(), small]).await;
        for step in &steps[..3] {
            gpu.forward(TapeId(0), step).await.unwrap();
        }
        let expected = gpu.forward(TapeId(0), &steps[3]).await.unwrap();
        let actual = gpu.forward(TapeId(1), &steps[3]).await.unwrap();
        assert_close("two tapes", &expected, &actual, &vec![1e-4; expected.len()]);
        let refused = gpu.forward(TapeId(1), &steps[2]).await.unwrap_err();
        assert!(refused.to_string().contains("does not fit"), "{refused}");
    });
}

async fn load_tapes(scene: &Scene, gpu: &mut Gpu, tapes: Vec<Tape>) {
    gpu.allocate(Allocation {
        weights: scene.weights.iter().map(|(spec, _)| spec.clone()).collect(),
        groups: Vec::new(),
        cache: scene.cache,
        sequences: scene.sequences,
        pages_per_sequence: scene.pages_per_sequence,
    })
    .await
    .unwrap();
    for (i, (_, blocks)) in scene.weights.iter().enumerate() {
        gpu.write_weight(decant::ops::WeightId(i), 0, blocks)
            .unwrap();
    }
    gpu.prepare(tapes).await.unwrap();
}
