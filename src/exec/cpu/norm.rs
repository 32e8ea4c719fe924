//! Normalisation of groups of values.

use super::{
    formats::ROWS,
    linear::{part, put},
    simd::{F32x4, load8},
};
use crate::ops::Norm;

/// `x` and `out`: groups of `size` values; `weight` and `bias` as in [`Norm`].
pub fn norm(
    op: &Norm,
    size: usize,
    weight: &[f32],
    bias: Option<&[f32]>,
    x: &[f32],
    out: &mut [f32],
) {
    let groups = x.chunks_exact(size).zip(out.chunks_exact_mut(size));
    for (group, (x, out)) in groups.enumerate() {
        let mean = if op.centred {
            sum(x, |v| v) / size as f32
        } else {
            0.0
        };
        let middle = F32x4::splat(mean);
        let squares = sum(x, |v| (v - middle) * (v - middle));
        let scale = 1.0 / (squares / size as f32 + op.epsilon).sqrt();
        let first = if weight.len() == size {
            0
        } else {
            group * size % weight.len()
        };
        let weight = &weight[first..][..size];
        let bias = bias.map(|bias| &bias[first..][..size]);
        let normed = |x: F32x4, weight: F32x4, bias: F32x4, out: F32x4| {
            let y = (x - middle) * F32x4::splat(scale) * weight + bias;
            if op.add { out + y } else { y }
        };
        for at in (0..size).step_by(ROWS) {
            let [x, weight] = [x, weight].map(|values| part(&values[at..]));
            let bias = bias.map_or([F32x4::zero(); 2], |bias| part(&bias[at..]));
            let old = part(&out[at..]);
            let [low, high] = [0, 1].map(|i| normed(x[i], weight[i], bias[i], old[i]));
            put([low, high], &mut out[at..]);
        }
    }
}

/// The sum of `f` of the values.
#[inline(always)]
fn sum(x: &[f32], f: impl Fn(F32x4) -> F32x4) -> f32 {
    let (octets, rest) = x.as_chunks();
    let mut totals = [F32x4::zero(); 2];
    for octet in octets {
        let values = load8(octet);
        totals = [0, 1].map(|i| totals[i] + f(values[i]));
    }
    let rest = rest.iter().map(|&v| f(F32x4::splat(v)).lanes()[0]);
    (totals[0] + totals[1]).sum() + rest.sum::<f32>()
}
