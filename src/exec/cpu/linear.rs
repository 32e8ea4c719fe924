//! Linear layers octet by octet, with activations in the form that the weights are to meet.

use std::ops::Range;

use super::{
    Activations,
    formats::ROWS,
    pass::Scratch,
    product::{Input, Sums, multiply},
    quantised::MOST,
    simd::{self, F32x4},
    weight::Weight,
};

/// The octets that rows of a matrix lie in.
pub fn octets(rows: &Range<usize>) -> Range<usize> {
    if rows.is_empty() {
        return 0..0;
    }
    rows.start / ROWS..rows.end.div_ceil(ROWS)
}

/// Numbers that no quantised ones stand beside yet.
pub fn input(x: &[f32], columns: usize) -> Input<'_> {
    Input {
        x,
        columns,
        eights: None,
        sixteens: None,
        words: None,
    }
}

/// Multiplies `input` with octets of matrices of one shape, and gives `each` the sums of each octet.
pub fn products<const M: usize>(
    matrices: [&Weight; M],
    octets: Range<usize>,
    input: Input,
    activations: Activations,
    scratch: &mut Scratch,
    mut each: impl FnMut(usize, [&Sums; M]),
) {
    let rows = input.x.len() / input.columns;
    if rows == 0 {
        return;
    }
    let Scratch {
        panel,
        sums,
        eights,
        sixteens,
        words,
        ..
    } = scratch;
    let mut input = input;
    let eight = |matrix: &Weight| activations == Activations::Q8 && matrix.meets_eights();
    if matrices.iter().any(|matrix| eight(matrix)) {
        eights.fill(input.x, input.columns, MOST[0]);
        input.eights = Some(eights);
    }
    let sixteen = |matrix: &Weight| {
        activations != Activations::F32 && matrix.is_quantised() && !eight(matrix)
    };
    if matrices.iter().any(|matrix| sixteen(matrix)) {
        if rows == 1 || simd::bytes_are_fast() {
            sixteens.fill(input.x, input.columns, MOST[1]);
            input.sixteens = Some(sixteens);
        } else {
            words.fill(input.x, input.columns, MOST[1]);
            input.words = Some(words);
        }
    }
    for sums in sums.iter_mut() {
        sums.resize(rows, [0.0; ROWS]);
    }
    for octet in octets {
        for (matrix, sums) in matrices.iter().zip(sums.iter_mut()) {
            multiply(matrix, octet, input, panel, sums);
        }
        each(octet, std::array::from_fn(|i| &*sums[i]));
    }
}

/// The next eight of `values`; zeros where there are fewer.
#[inline(always)]
pub fn part(values: &[f32]) -> [F32x4; 2] {
    if let Some(octet) = values.first_chunk() {
        return simd::load8(octet);
    }
    let mut octet = [0.0; ROWS];
    octet[..values.len()].copy_from_slice(values);
    simd::load8(&octet)
}

/// Writes eight values, or as many as there is room for.
#[inline(always)]
pub fn put(values: [F32x4; 2], to: &mut [f32]) {
    if let Some(to) = to.first_chunk_mut() {
        return simd::store8(values, to);
    }
    let mut octet = [0.0; ROWS];
    simd::store8(values, &mut octet);
    to.copy_from_slice(&octet[..to.len()]);
}
