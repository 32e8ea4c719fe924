//! Mixtures of experts: for each row the layers of its own experts, one after another.

use std::ops::Range;

use super::{
    Activations,
    formats::ROWS,
    math::activate,
    pass::{Scratch, input, products},
    simd::{load8, store8},
    weight::Weight,
};
use crate::ops::Experts;

/// Memory that is kept from call to call.
#[derive(Default)]
pub struct Rows {
    /// What the gated layers give.
    gated: Vec<f32>,
    /// What the last layer gives.
    down: Vec<f32>,
}

/// `x` and `out`: rows of `hidden` values; `route`: as many rows of experts' numbers and weights. `matrices`:
/// gate, up and down.
pub fn experts(
    op: &Experts,
    [gate, up, down]: [&Weight; 3],
    activations: Activations,
    x: &[f32],
    route: &[f32],
    scratch: &mut Scratch,
    out: &mut [f32],
) {
    let (hidden, width) = (gate.spec().columns, down.spec().columns);
    let chosen = route.len() / (x.len() / hidden) / 2;
    let mut rows = std::mem::take(&mut scratch.experts);
    rows.gated.resize(width, 0.0);
    rows.down.resize(hidden, 0.0);
    let each = x.chunks_exact(hidden).zip(route.chunks_exact(2 * chosen));
    for ((x, route), out) in each.zip(out.chunks_exact_mut(hidden)) {
        for (&expert, &weight) in route[..chosen].iter().zip(&route[chosen..]) {
            let expert = expert as usize;
            let place = expert * width..(expert + 1) * width;
            let (octets, x) = (octets(&place), input(x, hidden));
            products(
                [gate, up],
                octets,
                x,
                activations,
                scratch,
                |octet, sums| {
                    let [gate, up] = sums.map(|sums| load8(&sums[0]));
                    let mut values = [0.0; ROWS];
                    let gated = [0, 1].map(|i| activate(op.activation, gate[i]) * up[i]);
                    store8(gated, &mut values);
                    keep(&values, octet, &place, &mut rows.gated);
                },
            );
            let place = expert * hidden..(expert + 1) * hidden;
            let (octets, x) = (self::octets(&place), input(&rows.gated, width));
            products([down], octets, x, activations, scratch, |octet, [sums]| {
                keep(&sums[0], octet, &place, &mut rows.down);
            });
            for (out, value) in out.iter_mut().zip(&rows.down) {
                *out += weight * value;
            }
        }
    }
    scratch.experts = rows;
}

/// The octets that rows of a matrix lie in.
fn octets(rows: &Range<usize>) -> Range<usize> {
    rows.start / ROWS..rows.end.div_ceil(ROWS)
}

/// Keeps those values of an octet whose rows are in `place`; an octet may hold rows of two experts.
fn keep(values: &[f32; ROWS], octet: usize, place: &Range<usize>, to: &mut [f32]) {
    for (lane, &value) in values.iter().enumerate() {
        let row = octet * ROWS + lane;
        if place.contains(&row) {
            to[row - place.start] = value;
        }
    }
}
