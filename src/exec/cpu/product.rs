//! Rows of activations times an octet of a matrix: the loops in which nearly all time is spent.
//!
//! [`tile`] multiplies numbers, and serves linear layers, scores and weighted values alike. Quantised weights
//! meet quantised activations as integers, block by block, and each block's sum is scaled once. In both,
//! a weight that has been read or unpacked serves up to [`TILE`] rows while it is in a register, and an
//! octet serves all rows while it is in the nearest cache.

use super::{
    formats::{Eights, Nibbles, Quants, ROWS},
    quantised::{Block, Blocks, Quantised},
    simd::{F32x4, Quad, load8, store8},
    weight::{PANEL, Panel, Weight},
};
use crate::tensor::DType;

/// Rows that share a weight in a register.
pub const TILE: usize = 4;

/// Sums of an octet: for each row of activations, one for each row of the octet.
pub type Sums = [[f32; ROWS]];

/// Rows of activations.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The numbers, row after row.
    pub x: &'a [f32],
    /// Values in a row.
    pub columns: usize,
    /// The same, quantised; `None` where weights are to meet numbers.
    pub quantised: Option<Quantised<'a>>,
}

/// Writes the products of all rows of `input` with an octet of `weight` to `sums`.
pub fn multiply(weight: &Weight, octet: usize, input: Input, panel: &mut Panel, sums: &mut Sums) {
    sums.fill([0.0; ROWS]);
    match input.quantised.filter(|_| weight.is_quantised()) {
        Some(Quantised::Eights(x)) => integers(weight, octet, x, sums),
        Some(Quantised::Sixteens(x)) => integers(weight, octet, x, sums),
        None => numbers(weight, octet, input, panel, sums),
    }
}

fn integers<Q: Quad>(weight: &Weight, octet: usize, x: &Blocks<Q>, sums: &mut Sums) {
    match weight.spec().dtype {
        DType::Q8_0 => quants::<Eights, 256, Q>(weight, octet, x, sums),
        DType::Q4_0 => quants::<Nibbles<false>, 128, Q>(weight, octet, x, sums),
        DType::Q4_1 => quants::<Nibbles<true>, 128, Q>(weight, octet, x, sums),
        _ => unreachable!("only formats with a layout count as quantised"),
    }
}

fn numbers(weight: &Weight, octet: usize, input: Input, panel: &mut Panel, sums: &mut Sums) {
    for first in (0..input.columns).step_by(PANEL) {
        let count = PANEL.min(input.columns - first);
        let panel = weight.panel(octet, first, count, panel);
        let row = |row: usize| &input.x[row * input.columns + first..][..count];
        for (n, sums) in sums.chunks_mut(TILE).enumerate() {
            let row = |i: usize| row(n * TILE + i);
            match sums {
                [sums] => tile_of_one(panel, row(0), sums),
                _ => tiles(panel, row, sums),
            }
        }
    }
}

/// [`tile`] for any number of rows up to [`TILE`]: `row` gives the activations of each of `sums`.
pub fn tiles<'a>(panel: &[[f32; ROWS]], row: impl Fn(usize) -> &'a [f32], sums: &mut Sums) {
    match sums.len() {
        1 => tile(panel, [row(0)], sums),
        2 => tile(panel, [row(0), row(1)], sums),
        3 => tile(panel, [row(0), row(1), row(2)], sums),
        _ => tile(panel, [row(0), row(1), row(2), row(3)], sums),
    }
}

/// Adds to `sums[r][i]` the products of `x[r]` with lane `i` of the columns of `panel`.
#[inline(never)]
fn tile<const R: usize>(panel: &[[f32; ROWS]], x: [&[f32]; R], sums: &mut Sums) {
    let x = x.map(|x| &x[..panel.len()]);
    let mut totals: [_; R] = std::array::from_fn(|r| load8(&sums[r]));
    for (k, column) in panel.iter().enumerate() {
        let column = load8(column);
        for r in 0..R {
            let x = F32x4::splat(x[r][k]);
            totals[r] = [0, 1].map(|i| column[i].mul_add(x, totals[r][i]));
        }
    }
    for (sums, totals) in sums.iter_mut().zip(totals) {
        store8(totals, sums);
    }
}

/// The same for one row, in four sums side by side: one after the other would wait for each addition.
#[inline(never)]
fn tile_of_one(panel: &[[f32; ROWS]], x: &[f32], sums: &mut [f32; ROWS]) {
    let (fours, rest) = panel.as_chunks::<4>();
    let (x_fours, x_rest) = x.as_chunks::<4>();
    let mut totals = [[F32x4::zero(); 2]; 4];
    for (columns, x) in fours.iter().zip(x_fours) {
        for (n, total) in totals.iter_mut().enumerate() {
            let (column, x) = (load8(&columns[n]), F32x4::splat(x[n]));
            *total = [0, 1].map(|i| column[i].mul_add(x, total[i]));
        }
    }
    for (column, &x) in rest.iter().zip(x_rest) {
        let column = load8(column);
        totals[0] = [0, 1].map(|i| column[i].mul_add(F32x4::splat(x), totals[0][i]));
    }
    let old = load8(sums);
    let total = |i: usize| old[i] + ((totals[0][i] + totals[1][i]) + (totals[2][i] + totals[3][i]));
    store8([total(0), total(1)], sums);
}

fn quants<F: Quants<N>, const N: usize, Q: Quad>(
    weight: &Weight,
    octet: usize,
    x: &Blocks<Q>,
    sums: &mut Sums,
) {
    let blocks = weight.blocks::<F, N>(octet).zip(x.columns());
    if let [sums] = sums {
        // In a register from block to block.
        let mut total = [*sums];
        for ((quants, scales), x) in blocks {
            block::<F, N, Q, 1>(quants, scales, [&x[0]], &mut total);
        }
        *sums = total[0];
        return;
    }
    for ((quants, scales), x) in blocks {
        // Their sums must fit into the registers.
        let tiled = if Q::LEAN { x.len() / TILE * TILE } else { 0 };
        let ((tiles, _), (x_tiles, _)) = (
            sums[..tiled].as_chunks_mut::<TILE>(),
            x[..tiled].as_chunks::<TILE>(),
        );
        for (sums, x) in tiles.iter_mut().zip(x_tiles) {
            block::<F, N, Q, TILE>(quants, scales, x.each_ref(), sums);
        }
        let (pairs, rest) = sums[tiled..].as_chunks_mut::<2>();
        let (x_pairs, x_rest) = x[tiled..].as_chunks::<2>();
        for (sums, x) in pairs.iter_mut().zip(x_pairs) {
            block::<F, N, Q, 2>(quants, scales, x.each_ref(), sums);
        }
        let (ones, _) = rest.as_chunks_mut::<1>();
        for (sums, x) in ones.iter_mut().zip(x_rest) {
            block::<F, N, Q, 1>(quants, scales, [x], sums);
        }
    }
}

/// Adds the products of one block: `sums[r] += scale · x.scale · Σ (quant − offset) · x.quant`, and the minimum
/// times the sum of `x`.
#[inline(always)]
fn block<F: Quants<N>, const N: usize, Q: Quad, const R: usize>(
    quants: &[u8; N],
    scales: &[[f32; ROWS]],
    x: [&Block<Q>; R],
    sums: &mut [[f32; ROWS]; R],
) {
    let mut totals = x.map(|x| [Q::sum(-F::OFFSET * x.sum); 2]);
    for q in 0..4 {
        let quads = F::quads(quants, q);
        for (total, x) in totals.iter_mut().zip(x) {
            for (half, rows) in quads.into_iter().enumerate() {
                let quad = &x.quads[q + 4 * half];
                *total = [0, 1].map(|i| F::dot(total[i], rows[i], quad));
            }
        }
    }
    let scale = load8(&scales[0]);
    let minimum = F::MINIMA.then(|| load8(&scales[1]));
    for ((sums, total), x) in sums.iter_mut().zip(totals).zip(x) {
        let x_scale = F32x4::splat(x.scale);
        let total = total.map(|total| Q::total(total).to_f32());
        let mut sum = load8(sums);
        sum = [0, 1].map(|i| (scale[i] * x_scale).mul_add(total[i], sum[i]));
        if let Some(minimum) = minimum {
            let x_sum = F32x4::splat(x.scale * x.sum as f32);
            sum = [0, 1].map(|i| minimum[i].mul_add(x_sum, sum[i]));
        }
        store8(sum, sums);
    }
}
