// Functions of one value. Needs `params.activation`, one of the numbers below, `params.cap`, and
// lib/tanh.wgsl.

const SILU: u32 = 1u;
const GELU: u32 = 2u;
const GELU_TANH: u32 = 3u;
const RELU: u32 = 4u;
const RELU_SQUARED: u32 = 5u;
const SOFT_CAP: u32 = 6u; // anything else: the value itself

// The error function to 1.5·10⁻⁷ (Abramowitz and Stegun 1964, 7.1.26).
fn erf(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.3275911 * abs(x));
    let series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
    return sign(x) * (1.0 - series * exp(-x * x));
}

fn activate(x: f32) -> f32 {
    if (params.activation == SILU) {
        return x / (1.0 + exp(-x));
    }
    if (params.activation == GELU) {
        return 0.5 * x * (1.0 + erf(x * 0.70710678));
    }
    if (params.activation == GELU_TANH) {
        return 0.5 * x * (1.0 + safe_tanh(0.79788456 * (x + 0.044715 * x * x * x)));
    }
    if (params.activation == RELU || params.activation == RELU_SQUARED) {
        let positive = select(x, 0.0, x < 0.0);
        return select(positive, positive * positive, params.activation == RELU_SQUARED);
    }
    if (params.activation == SOFT_CAP) {
        return params.cap * safe_tanh(x / params.cap);
    }
    return x;
}
