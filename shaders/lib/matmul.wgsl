// What every linear layer shares: out = x · weightᵀ, then bias and how the result joins `out`.

struct Params {
    rows_at: u32,       // the step's word that holds the number of rows of x and out
    columns: u32,       // values in a row of the weight
    blocks: u32,        // blocks of octets in a row of the weight
    outputs: u32,       // rows of this part of the weight
    first: u32,         // the output that the part's first row makes
    quants: u32,        // where the part begins in quants, in elements of that array
    scales: u32,        // where the part begins in scales, in words
    bias: u32,          // where the bias begins in its buffer
    x_stride: u32,      // values from row to row of x, a multiple of 8
    out_stride: u32,    // values from row to row of out and residual
}

const ADD_NONE: u32 = 0u;     // out = y
const ADD_OUT: u32 = 1u;      // out = y + out
const ADD_RESIDUAL: u32 = 2u; // out = y + residual
const GATE_OUT: u32 = 3u;     // out = silu(out) · y

override BIAS: bool = false;
override JOIN: u32 = 0u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> bias: array<f32>;
@group(0) @binding(6) var<storage, read> residual: array<f32>;
@group(0) @binding(7) var<storage, read_write> out: array<f32>;

fn dot8(w: mat2x4<f32>, a: vec4<f32>, b: vec4<f32>) -> f32 {
    return dot(w[0], a) + dot(w[1], b);
}

// Stores the product for a row of x and a row of this part of the weight.
fn finish(row: u32, output: u32, product: f32) {
    let column = params.first + output;
    let at = row * params.out_stride + column;
    var y = product;
    if (BIAS) {
        y += bias[params.bias + column];
    }
    if (JOIN == ADD_OUT) {
        y += out[at];
    }
    if (JOIN == ADD_RESIDUAL) {
        y += residual[at];
    }
    if (JOIN == GATE_OUT) {
        let gate = out[at];
        y *= gate / (1.0 + exp(-gate));
    }
    out[at] = y;
}
