// What becomes of scores, and which there are. Needs `params.window`, `params.cap` and lib/tanh.wgsl.

// Below every finite score; the first score replaces it.
const LOWEST: f32 = -3.4028234e38;

// The first position that a row at `position` sees.
fn first_seen(position: u32) -> u32 {
    return select(0u, position + 1u - params.window, position >= params.window);
}

// A score below the cap.
fn capped(score: f32) -> f32 {
    if (params.cap == 0.0) {
        return score;
    }
    return params.cap * safe_tanh(score / params.cap);
}
