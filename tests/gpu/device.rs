//! The device: memory, limits, loss, and what a step costs.

use decant::{
    error::ErrorKind,
    exec::{
        Allocation, Executor, TapeId,
        gpu::{Forms, GpuOptions},
    },
    ops::Op,
    tensor::DType,
};
use pollster::block_on;

use crate::{
    gpu,
    support::scene::{Scene, plain_step},
};

/// x · weight for one row.
fn scene() -> Scene {
    let mut scene = Scene::new(2, 3);
    let x = scene.input("x", 64, &[0.5; 128]);
    let weight = scene.random_weight(DType::Q8_0, 300, 64);
    let op = scene.matmul(x, weight, "out");
    scene.tape.logits = op.out;
    scene.op(Op::MatMul(op));
    scene
}

#[test]
fn running_out_of_memory_is_typed_and_leaves_nothing_behind() {
    let scene = scene();
    let needed = {
        let Some(mut gpu) = gpu(GpuOptions::default()) else {
            return;
        };
        block_on(scene.load(&mut gpu)).unwrap();
        gpu.allocated_bytes()
    };
    // Every allocation in turn is the one that fails.
    let mut failures = 0;
    for limit in (0..needed).step_by(64) {
        let Some(mut gpu) = gpu(GpuOptions {
            memory_limit: Some(limit),
            ..Default::default()
        }) else {
            return;
        };
        let error = block_on(scene.load(&mut gpu)).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::OutOfMemory, "{limit}: {error}");
        failures += 1;
        if limit % 1024 == 0 {
            // A smaller model then loads on the same executor.
            let mut small = Scene::new(1, 0);
            small.input("x", 1, &[1.0]);
            let freed = block_on(small.load(&mut gpu));
            assert!(freed.is_ok() || limit < 1024, "{limit}: {freed:?}");
        }
    }
    assert!(failures > 10);
}

#[test]
fn a_lost_device_fails_now_and_later_and_a_new_one_works() {
    let scene = scene();
    let step = plain_step(2);
    let Some(mut gpu) = gpu(GpuOptions::default()) else {
        return;
    };
    block_on(async {
        scene.load(&mut gpu).await.unwrap();
        let mut wanted = step.clone();
        wanted.outputs = vec![0];
        let pending = gpu.forward(TapeId(0), &wanted);
        gpu.lose_device();
        // What was in flight either arrived or says why it did not.
        if let Err(error) = pending.await {
            assert_eq!(error.kind(), &ErrorKind::DeviceLost, "{error}");
        }
        for _ in 0..2 {
            let error = gpu.forward(TapeId(0), &wanted).await.unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::DeviceLost, "{error}");
            let error = gpu.copy_page(0, 0).unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::DeviceLost, "{error}");
            let error = scene.load(&mut gpu).await.unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::DeviceLost, "{error}");
        }
    });
    let Some(mut new) = crate::gpu(GpuOptions::default()) else {
        return;
    };
    block_on(async {
        scene.load(&mut new).await.unwrap();
        new.forward(TapeId(0), &step).await.unwrap();
    });
}

#[test]
fn use_out_of_order_is_a_typed_error() {
    let Some(mut gpu) = gpu(GpuOptions::default()) else {
        return;
    };
    let scene = scene();
    block_on(async {
        let step = plain_step(1);
        let error = gpu.forward(TapeId(0), &step).await.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Internal);
        let error = gpu
            .write_weight(decant::ops::WeightId(0), 0, &[0; 4])
            .unwrap_err();
        assert!(
            error.to_string().contains("before it was allocated"),
            "{error}"
        );

        gpu.allocate(Allocation {
            weights: scene.weights.iter().map(|(spec, _)| spec.clone()).collect(),
            groups: Vec::new(),
            cache: scene.cache,
            sequences: 1,
            pages_per_sequence: 1,
        })
        .await
        .unwrap();
        let error = gpu.prepare(vec![scene.tape.clone()]).await.unwrap_err();
        assert!(
            error.to_string().contains("0 of 128 blocks were written"),
            "{error}"
        );
        let error = gpu
            .write_weight(decant::ops::WeightId(1), 599, &[0; 2 * 34])
            .unwrap_err();
        assert!(error.to_string().starts_with("weight 1: "), "{error}");
    });
}

#[test]
fn a_cache_or_activation_above_the_binding_limit_is_refused() {
    let Some(mut gpu) = gpu(GpuOptions {
        binding_limit: Some(16 << 10),
        ..Default::default()
    }) else {
        return;
    };
    let mut large = scene();
    large.cache.head_dim = 64;
    large.cache.pages = 65;
    let error = block_on(large.load(&mut gpu)).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unsupported);
    assert!(
        error.to_string().contains("65 positions needs 16640 bytes"),
        "{error}"
    );
    assert_eq!(gpu.allocated_bytes(), 0);

    let mut wide = scene();
    wide.tape.max_rows = 40;
    let error = block_on(wide.load(&mut gpu)).unwrap_err();
    assert!(
        error.to_string().contains("the activation out needs"),
        "{error}"
    );
}

#[test]
fn each_format_shape_and_number_of_rows_is_measured_for_itself() {
    let options = GpuOptions {
        forms: Forms::Measured,
        separate: true,
        ..Default::default()
    };
    let Some(mut gpu) = gpu(options) else { return };
    let mut notes = Vec::new();
    for (rows, dtype, inputs, outputs) in [
        (6, DType::Q8_0, 64, 40),
        (6, DType::Q8_0, 64, 72),
        (6, DType::Q8_0, 96, 40),
        (6, DType::Q4_0, 64, 40),
        (5, DType::Q8_0, 64, 40),
    ] {
        let mut scene = Scene::new(rows, 3);
        let x = scene.input("x", inputs, &vec![0.5; rows * inputs]);
        let weight = scene.random_weight(dtype, outputs, inputs);
        let op = scene.matmul(x, weight, "out");
        scene.op(Op::MatMul(op));
        block_on(scene.load(&mut gpu)).unwrap();
        let name = dtype.name();
        notes.push(format!(
            "{name} matrices of {outputs} × {inputs}, {rows} rows"
        ));
        let found = gpu.info().notes;
        for note in &notes {
            assert!(
                found.iter().any(|n| n.starts_with(note)),
                "{note}: {found:#?}"
            );
        }
    }
}
