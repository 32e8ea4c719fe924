// What becomes of scores, and which there are. Needs `params.window` and `params.cap`.

// Below every finite score; the first score replaces it.
const LOWEST: f32 = -3.4028234e38;

// The first position that a row at `position` sees.
fn first_seen(position: u32) -> u32 {
    return select(0u, position + 1u - params.window, position >= params.window);
}

// A score below the cap. tanh by exp of what is not positive, because it may be anything for large values.
fn capped(score: f32) -> f32 {
    if (params.cap == 0.0) {
        return score;
    }
    let e = exp(-2.0 * abs(score) / params.cap);
    return sign(score) * params.cap * (1.0 - e) / (1.0 + e);
}
