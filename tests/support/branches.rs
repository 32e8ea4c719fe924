//! A model that goes back to an earlier position, or on from it twice, on any executor.

use decant::exec::{Executor, TapeId};
use pollster::block_on;

use super::{
    checkpoint::{Model, PAGE, distance, step},
    golden,
};

/// The longer golden prompt of `models/<name>` whose last tokens come after others in their place were given
/// up, and whose beginning another sequence shares that goes on differently, before or after it; says which logits
/// are too far from Hugging Face's.
pub fn compare(name: &str, model: &Model, executor: &mut dyn Executor) -> Vec<String> {
    let prompt = &golden::forward(name)[1];
    let (ids, length) = (&prompt.input_ids, prompt.input_ids.len());
    let vocabulary = prompt.logits.len() / length;
    model.prepare(executor, vec![model.graph.tape(length, length).unwrap()]);
    let executor = &*executor;
    let forward = |ids: &[u32], at: usize, table: &[u32]| {
        let mut step = step(ids, at, length);
        step.tables = vec![table.to_vec()];
        block_on(executor.forward(TapeId(0), &step)).unwrap()
    };
    let mut faults = Vec::new();
    let pages = length.div_ceil(PAGE) as u32;
    let table: Vec<u32> = (0..pages).rev().collect();
    // Another sequence's own pages.
    let others: Vec<u32> = (0..pages).map(|page| 2 * pages + page).collect();
    for at in 1..length - 1 {
        let other: Vec<u32> = ids[at..].iter().map(|id| (id + 7) % 100).collect();
        let mut check = |what: &str, found: &[f32]| {
            let off = distance(found, &prompt.logits[at * vocabulary..]);
            if off.is_nan() || off > 1.0 {
                faults.push(format!("{name}, {what} at {at}: {off}"));
            }
        };
        forward(&ids[..at], 0, &table);
        for given_up in [1, 2, length - at] {
            forward(&other[..given_up.min(other.len())], at, &table);
            check("after a rewind", &forward(&ids[at..], at, &table));
        }
        let shared = at / PAGE;
        let forked = [&table[..shared], &others[shared..]].concat();
        let fork = || {
            // What was in the pages before is of no use.
            forward(&vec![1; length], 0, &others);
            forward(&ids[..at], 0, &table);
            if at % PAGE != 0 {
                executor.copy_page(table[shared], others[shared]).unwrap();
            }
        };
        fork();
        forward(&other, at, &forked);
        check("beside a fork", &forward(&ids[at..], at, &table));
        fork();
        forward(&other, at, &table);
        check("in a fork", &forward(&ids[at..], at, &forked));
    }
    faults
}
