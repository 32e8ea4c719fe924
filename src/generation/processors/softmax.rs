//! Softmax: `pᵢ = exp(sᵢ − max s) / Σⱼ exp(sⱼ − max s)`, in f32 with the sum in f64; its logarithm; its
//! entropy.

/// Writes the probabilities of `scores` to `probabilities`, of the same length.
///
/// A row that holds NaN or +∞, or only −∞, has no distribution: NaN appears in the result.
pub(in crate::generation) fn softmax(scores: &[f32], probabilities: &mut [f32]) {
    probabilities.copy_from_slice(scores);
    softmax_in_place(probabilities);
}

/// Turns scores into probabilities; whether they have any.
pub(super) fn softmax_in_place(values: &mut [f32]) -> bool {
    let (max, total) = total(values);
    for value in values.iter_mut() {
        *value = (f64::from((*value - max).exp()) / total) as f32;
    }
    total.is_finite()
}

/// Turns scores into logarithms of probabilities.
pub(in crate::generation) fn log_softmax(scores: &mut [f32]) {
    let shift = log_total(scores);
    for score in scores {
        *score = (f64::from(*score) - shift) as f32;
    }
}

/// `ln Σ exp(s)`: what a score's logarithm of the probability is less.
pub(in crate::generation) fn log_total(scores: &[f32]) -> f64 {
    let (max, total) = total(scores);
    f64::from(max) + total.ln()
}

/// `−Σ p · ln p`.
pub(super) fn entropy(probabilities: &[f32]) -> f32 {
    let possible = probabilities.iter().filter(|p| **p > 0.0);
    let terms = possible.map(|&p| f64::from(p) * f64::from(p).ln());
    -terms.sum::<f64>() as f32
}

/// The greatest score and `Σ exp(s − max s)`.
fn total(scores: &[f32]) -> (f32, f64) {
    // `f32::max` would drop a NaN; here it must reach the result.
    let greater = |max: f32, score: f32| match score > max || score.is_nan() {
        true => score,
        false => max,
    };
    let max = scores.iter().copied().fold(f32::NEG_INFINITY, greater);
    let total = scores
        .iter()
        .map(|score| f64::from((score - max).exp()))
        .sum();
    (max, total)
}
