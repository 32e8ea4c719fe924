//! `select_rows.wgsl` against its reference.

use decant::{
    exec::{Executor, TapeId},
    ops::{BufferId, BufferSpec, Op, Rows, SelectRows, select_rows},
    tape::Step,
};
use pollster::block_on;

use crate::{
    gpu, only,
    support::{
        close::assert_close,
        scene::{Scene, plain_step},
    },
};

fn check(rows: usize, columns: usize, outputs: &[u32]) {
    let Some(mut gpu) = gpu(only("select_rows")) else {
        return;
    };
    let mut scene = Scene::new(rows, (rows + columns) as u64);
    let values = scene.random.values(rows * columns, 1.0);
    let x = scene.input("x", columns, &values);
    scene.tape.buffers.push(BufferSpec {
        name: "logits".into(),
        rows: Rows::Outputs,
        columns,
    });
    let out = BufferId(scene.tape.buffers.len() - 1);
    scene.op(Op::SelectRows(SelectRows { x, out }));
    scene.tape.logits = out;
    let step = Step {
        outputs: outputs.to_vec(),
        ..plain_step(rows)
    };
    let mut expected = vec![0.0; outputs.len() * columns];
    select_rows::reference(&values, columns, outputs, &mut expected);
    block_on(async {
        scene.load(&mut gpu).await.unwrap();
        let actual = gpu.forward(TapeId(0), &step).await.unwrap();
        // Rows are copied.
        assert_close(
            &format!("{rows}×{columns}"),
            &expected,
            &actual,
            &vec![0.0; expected.len()],
        );
    });
}

#[test]
fn rows_are_copied() {
    for columns in [1, 3, 8, 63, 64, 65, 197, 576] {
        check(1, columns, &[0]);
        check(9, columns, &[0, 4, 8]);
    }
    check(300, 20, &(0..300).step_by(7).collect::<Vec<_>>());
}

#[test]
fn no_outputs_no_logits() {
    let Some(mut gpu) = gpu(only("select_rows")) else {
        return;
    };
    let mut scene = Scene::new(2, 0);
    let x = scene.input("x", 4, &[1.0; 8]);
    scene.tape.logits = x;
    let logits = block_on(async {
        scene.load(&mut gpu).await.unwrap();
        gpu.forward(TapeId(0), &plain_step(2)).await.unwrap()
    });
    assert!(logits.is_empty());
}
