//! Mixtures of experts: for each row the layers of its own experts, one after another.

use std::ops::Range;

use super::{
    Activations,
    crew::Share,
    formats::ROWS,
    linear::{input, octets, products},
    math::activate,
    pass::Scratch,
    simd::{load8, store8},
    weight::Weight,
};
use crate::ops::Experts;

/// What both halves work on.
pub struct Call<'a> {
    pub op: &'a Experts,
    /// Gate, up and down.
    pub matrices: [&'a Weight; 3],
    pub activations: Activations,
    /// The thread's share of every layer's outputs.
    pub share: Share,
    /// Rows of `hidden` values.
    pub x: &'a [f32],
    /// As many rows of experts' numbers and weights.
    pub route: &'a [f32],
}

impl Call<'_> {
    /// Outputs of an expert's gated layer, and how many such layers there are in all.
    pub fn shape(&self) -> (usize, usize) {
        (self.matrices[2].spec().columns, self.route.len() / 2)
    }

    fn hidden(&self) -> usize {
        self.matrices[0].spec().columns
    }

    /// For each row its experts and their weights.
    fn choices(&self) -> impl Iterator<Item = (&[f32], &[f32])> {
        let chosen = self.route.len() / (self.x.len() / self.hidden()) / 2;
        let routes = self.route.chunks_exact(2 * chosen);
        routes.map(move |route| route.split_at(chosen))
    }

    /// Writes the thread's share of what the gated layers give, a row for each expert of each row.
    pub fn gated(&self, scratch: &mut Scratch, gated: &mut Vec<f32>) {
        let [gate, up, _] = self.matrices;
        let (width, layers) = self.shape();
        gated.resize(layers * width, 0.0);
        let own = self.share.columns(width, ROWS);
        let mut rows = gated.chunks_exact_mut(width);
        for (x, (experts, _)) in self.x.chunks_exact(self.hidden()).zip(self.choices()) {
            for (&expert, row) in experts.iter().zip(&mut rows) {
                let first = expert as usize * width;
                let place = first + own.start..first + own.end;
                let row = &mut row[own.clone()];
                products(
                    [gate, up],
                    octets(&place),
                    input(x, self.hidden()),
                    self.activations,
                    scratch,
                    |octet, sums| {
                        let [gate, up] = sums.map(|sums| load8(&sums[0]));
                        let mut values = [0.0; ROWS];
                        let gated = [0, 1].map(|i| activate(self.op.activation, gate[i]) * up[i]);
                        store8(gated, &mut values);
                        keep(&values, octet, &place, row);
                    },
                );
            }
        }
    }

    /// Adds the thread's share of what the experts make of `gated` to `out`.
    pub fn down(&self, scratch: &mut Scratch, gated: &[f32], out: &mut [f32]) {
        let down = self.matrices[2];
        let (width, _) = self.shape();
        let own = self.share.columns(self.hidden(), ROWS);
        let mut values = std::mem::take(&mut scratch.down);
        values.resize(own.len(), 0.0);
        let mut rows = gated.chunks_exact(width);
        for (out, (experts, weights)) in out.chunks_exact_mut(self.hidden()).zip(self.choices()) {
            for ((&expert, &weight), row) in experts.iter().zip(weights).zip(&mut rows) {
                let first = expert as usize * self.hidden();
                let place = first + own.start..first + own.end;
                let (octets, x) = (octets(&place), input(row, width));
                products(
                    [down],
                    octets,
                    x,
                    self.activations,
                    scratch,
                    |octet, [sums]| {
                        keep(&sums[0], octet, &place, &mut values);
                    },
                );
                for (out, value) in out[own.clone()].iter_mut().zip(&values) {
                    *out += weight * value;
                }
            }
        }
        scratch.down = values;
    }
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
