//! Rows of activations times an octet of a matrix: the loops in which nearly all time is spent.
//!
//! [`tiles`] multiplies numbers, and serves linear layers, scores and weighted values alike. Quantised weights
//! meet quantised activations as integers, block by block, and each block's sum is scaled once. In both,
//! a weight that has been read or unpacked serves up to [`TILE`] rows while it is in a register, and an
//! octet serves all rows while it is in the nearest cache.

use std::ops::Range;

use super::{
    formats::{self, Fives, Nibbles, Quants, ROWS, Sixes, Table},
    quantised::{Block, Blocks},
    simd::{Eights, F32x4, Octet, Quad, Sixteens, Words, load8, store8},
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
    /// The same of 8 bits, for weights that are to meet them.
    pub eights: Option<&'a Blocks<Eights>>,
    /// The same of 16 bits, for other quantised weights unless they are to meet numbers.
    pub sixteens: Option<&'a Blocks<Sixteens>>,
    /// Instead of those, where many rows are multiplied faster as words.
    pub words: Option<&'a Blocks<Words>>,
}

/// Writes the products of all rows of `input` with an octet of `weight` to `sums`.
pub fn multiply(weight: &Weight, octet: usize, input: Input, panel: &mut Panel, sums: &mut Sums) {
    sums.fill([0.0; ROWS]);
    if let Some(x) = input.eights.filter(|_| weight.meets_eights()) {
        return nibbles(weight, octet, x, sums);
    }
    match (input.sixteens, input.words) {
        (Some(x), _) if weight.is_quantised() => integers(weight, octet, x, sums),
        (_, Some(x)) if weight.is_quantised() => integers(weight, octet, x, sums),
        _ => numbers(weight, octet, input, panel, sums),
    }
}

/// The formats that gain from activations of 8 bits.
fn nibbles<Q: Quad>(weight: &Weight, octet: usize, x: &Blocks<Q>, sums: &mut Sums) {
    match weight.spec().dtype {
        DType::Q4_0 => quants::<Nibbles<8, false, 1>, 128, Q>(weight, octet, x, sums),
        _ => quants::<Nibbles<0, true, 1>, 128, Q>(weight, octet, x, sums),
    }
}

fn integers<Q: Quad>(weight: &Weight, octet: usize, x: &Blocks<Q>, sums: &mut Sums) {
    match weight.spec().dtype {
        DType::F32 | DType::F16 | DType::BF16 => unreachable!("they do not count as quantised"),
        DType::Q4_0 | DType::Q4_1 | DType::Q4_K => nibbles(weight, octet, x, sums),
        DType::Q8_0 => quants::<formats::Eights, 256, Q>(weight, octet, x, sums),
        DType::Q2_K | DType::Q3_K => {
            quants::<Nibbles<0, true, 2>, 128, Q>(weight, octet, x, sums);
        }
        DType::IQ4_NL | DType::IQ4_XS => quants::<Table, 128, Q>(weight, octet, x, sums),
        DType::Q5_0 | DType::Q5_1 | DType::Q5_K | DType::MXFP4 => {
            quants::<Fives, 160, Q>(weight, octet, x, sums);
        }
        DType::Q6_K => quants::<Sixes, 192, Q>(weight, octet, x, sums),
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
                _ => tiles(panel, 0, row, sums, 1, 1),
            }
        }
    }
}

/// Adds to `sums[r · between + o]`, for each of `octets` octets `o`, the products of row `r` of activations with the
/// columns of `panel` from `o · stride` on. `row` gives as many rows, up to [`TILE`], as `sums` are for.
pub fn tiles<'a, O: Octet>(
    panel: &[O],
    stride: usize,
    row: impl Fn(usize) -> &'a [f32],
    sums: &mut Sums,
    between: usize,
    octets: usize,
) {
    match sums.len().div_ceil(between) {
        1 => tile(panel, stride, [row(0)], sums, between, octets),
        2 => tile(panel, stride, [row(0), row(1)], sums, between, octets),
        3 => {
            let rows = [row(0), row(1), row(2)];
            tile(panel, stride, rows, sums, between, octets);
        }
        _ => {
            let rows = [row(0), row(1), row(2), row(3)];
            tile(panel, stride, rows, sums, between, octets);
        }
    }
}

/// [`tiles`] for `R` rows.
#[inline(never)]
fn tile<const R: usize, O: Octet>(
    panel: &[O],
    stride: usize,
    x: [&[f32]; R],
    sums: &mut Sums,
    between: usize,
    octets: usize,
) {
    let len = x[0].len();
    let x = x.map(|x| &x[..len]);
    // Two octets side by side where there are registers for them: few sums would wait for each other's additions.
    let pairs = if R < TILE { octets / 2 } else { 0 };
    for octet in (0..pairs).map(|pair| 2 * pair) {
        let panels = [octet, octet + 1].map(|octet| &panel[octet * stride..][..len]);
        let at = |r: usize| r * between + octet;
        let mut first: [_; R] = std::array::from_fn(|r| load8(&sums[at(r)]));
        let mut second: [_; R] = std::array::from_fn(|r| load8(&sums[at(r) + 1]));
        for k in 0..len {
            let [a, b] = [panels[0][k].wide(), panels[1][k].wide()];
            for r in 0..R {
                let x = F32x4::splat(x[r][k]);
                first[r] = [a[0].mul_add(x, first[r][0]), a[1].mul_add(x, first[r][1])];
                second[r] = [b[0].mul_add(x, second[r][0]), b[1].mul_add(x, second[r][1])];
            }
        }
        for (r, (first, second)) in first.into_iter().zip(second).enumerate() {
            store8(first, &mut sums[at(r)]);
            store8(second, &mut sums[at(r) + 1]);
        }
    }
    for octet in 2 * pairs..octets {
        let panel = &panel[octet * stride..][..len];
        let at = |r: usize| r * between + octet;
        let mut totals: [_; R] = std::array::from_fn(|r| load8(&sums[at(r)]));
        for (k, column) in panel.iter().enumerate() {
            let column = column.wide();
            for r in 0..R {
                let x = F32x4::splat(x[r][k]);
                totals[r] = [0, 1].map(|i| column[i].mul_add(x, totals[r][i]));
            }
        }
        for (r, total) in totals.into_iter().enumerate() {
            store8(total, &mut sums[at(r)]);
        }
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
    // The sums of four rows must fit into the registers.
    let fours = if Q::LEAN { sums.len() / TILE } else { 0 };
    let (tiles, rest) = sums.split_at_mut(fours * TILE);
    let (pairs, last) = rest.as_chunks_mut::<2>();
    let blocks = || weight.blocks::<F, N>(octet).zip(x.columns());
    if fours + pairs.len() > 0 {
        for ((quants, scales), x) in blocks() {
            let (x_tiles, x_rest) = x.split_at(fours * TILE);
            let tiles = tiles.as_chunks_mut::<TILE>().0.iter_mut();
            for (sums, x) in tiles.zip(x_tiles.as_chunks().0) {
                stored::<F, N, Q, TILE>(quants, scales, x, sums);
            }
            for (sums, x) in pairs.iter_mut().zip(x_rest.as_chunks().0) {
                stored::<F, N, Q, 2>(quants, scales, x, sums);
            }
        }
    }
    if let [sums] = last {
        // In a register from block to block.
        let mut total = [load8(sums)];
        for ((quants, scales), x) in blocks() {
            block::<F, N, Q, 1>(quants, scales, [&x[x.len() - 1]], &mut total);
        }
        store8(total[0], sums);
    }
}

/// [`block`] for sums in memory.
#[inline(always)]
fn stored<F: Quants<N>, const N: usize, Q: Quad, const R: usize>(
    quants: &[u8; N],
    scales: &[[f32; ROWS]],
    x: &[Block<Q>; R],
    sums: &mut [[f32; ROWS]; R],
) {
    let mut totals = sums.each_ref().map(load8);
    block::<F, N, Q, R>(quants, scales, x.each_ref(), &mut totals);
    for (sums, total) in sums.iter_mut().zip(totals) {
        store8(total, sums);
    }
}

/// Adds the products of one block: `sums[r] += scale · x.scale · Σ (quant − offset) · x.quant`, and the minimum
/// times the sum of `x`; for each half of the block by itself where the format has two scales.
#[inline(always)]
fn block<F: Quants<N>, const N: usize, Q: Quad, const R: usize>(
    quants: &[u8; N],
    scales: &[[f32; ROWS]],
    x: [&Block<Q>; R],
    sums: &mut [[F32x4; 2]; R],
) {
    for part in 0..F::SCALES {
        let halves = if F::SCALES == 1 { 0..2 } else { part..part + 1 };
        let mut totals = x.map(|x| {
            let sum: i32 = x.sums[halves.clone()].iter().sum();
            [Q::sum(-F::OFFSET * sum); 2]
        });
        let mut quarter = |q| quarter::<F, N, Q, R>(quants, q, x, halves.clone(), &mut totals);
        if F::UNROLLED {
            quarter(0);
            quarter(1);
            quarter(2);
            quarter(3);
        } else {
            (0..4).for_each(quarter);
        }
        let scale = load8(&scales[part]);
        let minimum = F::MINIMA.then(|| load8(&scales[F::SCALES + part]));
        for (r, sums) in sums.iter_mut().enumerate() {
            let x_scale = F32x4::splat(x[r].scale);
            let total = totals[r].map(|total| Q::total(total).to_f32());
            *sums = [0, 1].map(|i| (scale[i] * x_scale).mul_add(total[i], sums[i]));
            if let Some(minimum) = minimum {
                let x_sum = F32x4::splat(x[r].scaled_sums[halves.clone()].iter().sum());
                *sums = [0, 1].map(|i| minimum[i].mul_add(x_sum, sums[i]));
            }
        }
    }
}

/// Adds the products of columns `4q..4q + 4` and `16 + 4q..` of a block, as far as they are in `halves`.
#[inline(always)]
fn quarter<F: Quants<N>, const N: usize, Q: Quad, const R: usize>(
    quants: &[u8; N],
    q: usize,
    x: [&Block<Q>; R],
    halves: Range<usize>,
    totals: &mut [[Q::Sum; 2]; R],
) {
    let quads = F::quads(quants, q);
    let mut half = |half: usize| {
        for step in 0..Q::steps(F::WIDE) {
            // Once for all rows of activations.
            let rows = [
                Q::rows(quads[half][0], F::WIDE, step),
                Q::rows(quads[half][1], F::WIDE, step),
            ];
            for (total, x) in totals.iter_mut().zip(x) {
                let quad = &x.quads[q + 4 * half];
                *total = [
                    quad.dot(total[0], rows[0], F::WIDE, step),
                    quad.dot(total[1], rows[1], F::WIDE, step),
                ];
            }
        }
    };
    // A loop over the two would keep them in memory.
    if halves.contains(&0) {
        half(0);
    }
    if halves.contains(&1) {
        half(1);
    }
}
