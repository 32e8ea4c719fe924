//! Softmax: `pᵢ = exp(sᵢ − max s) / Σⱼ exp(sⱼ − max s)`, in f32 with the sum in f64.

/// Writes the probabilities of `scores` to `probabilities`, of the same length.
///
/// A row that holds NaN or +∞, or only −∞, has no distribution: NaN appears in the result.
pub(in crate::generation) fn softmax(scores: &[f32], probabilities: &mut [f32]) {
    // `f32::max` would drop a NaN; here it must reach the result.
    let max = scores
        .iter()
        .copied()
        .fold(f32::NEG_INFINITY, |max, score| {
            if score > max || score.is_nan() {
                score
            } else {
                max
            }
        });
    let mut total = 0.0f64;
    for (probability, score) in probabilities.iter_mut().zip(scores) {
        *probability = (score - max).exp();
        total += f64::from(*probability);
    }
    for probability in probabilities {
        *probability = (f64::from(*probability) / total) as f32;
    }
}
