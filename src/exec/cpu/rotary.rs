//! Rotary embedding of queries and keys, and both into the cache.

use std::ops::Range;

use super::pass::Pass;
use crate::ops::{self, RotaryStore};

/// Rotates `heads` of the queries `q` and all keys `k`, and stores keys and values of the heads that are held.
pub fn rotate_and_store(
    op: &RotaryStore,
    pass: &mut Pass,
    heads: Range<usize>,
    q: &mut [f32],
    k: &mut [f32],
) {
    let (head_dim, width) = (pass.cache.head_dim, pass.cache.width());
    let v = &pass.buffers[op.v.0];
    let angles = &mut pass.scratch.row;
    for row in 0..pass.step.tokens.len() {
        let (slot, position) = (pass.step.slots[row] as usize, pass.step.positions[row]);
        let q = &mut q[row * op.heads * head_dim..][heads.start * head_dim..heads.end * head_dim];
        let k = &mut k[row * width..][..width];
        if let Some(rotation) = op.rotation {
            angles.resize(rotation.dims, 0.0);
            let first = pass.step.angles.get(slot).copied().unwrap_or(0);
            let table = &pass.weights[rotation.table.0];
            table.row((first + position) as usize, &mut pass.scratch.panel, angles);
            rotate(q, head_dim, angles, rotation.pairing);
            rotate(k, head_dim, angles, rotation.pairing);
        }
        let position = position as usize;
        let page = pass.step.tables[slot][position / pass.cache.page_size];
        let at = position % pass.cache.page_size;
        pass.layers[op.layer].store(page as usize, at, k, &v[row * width..][..width]);
    }
}

/// As [`ops::rotary_store::reference`], in f32.
fn rotate(heads: &mut [f32], head_dim: usize, angles: &[f32], pairing: ops::Pairing) {
    let (cosines, sines) = angles.split_at(angles.len() / 2);
    for head in heads.chunks_exact_mut(head_dim) {
        let head = &mut head[..angles.len()];
        let turned = |a: f32, b: f32, i: usize| {
            let (cos, sin) = (cosines[i], sines[i]);
            (a * cos - b * sin, b * cos + a * sin)
        };
        match pairing {
            ops::Pairing::Halves => {
                let (first, second) = head.split_at_mut(sines.len());
                for (i, (a, b)) in first.iter_mut().zip(second).enumerate() {
                    (*a, *b) = turned(*a, *b, i);
                }
            }
            ops::Pairing::Neighbours => {
                for (i, pair) in head.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                    (pair[0], pair[1]) = turned(pair[0], pair[1], i);
                }
            }
        }
    }
}
