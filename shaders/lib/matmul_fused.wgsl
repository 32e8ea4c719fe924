// What the fused forms of matrix multiplication share: y = scale · (n · weightᵀ [+ bias]) with n = x or,
// where NORMED, n = gain · x / √(mean(x²) + ε). The normalisation's root divides the sums, which need not
// wait for it. Then out = activate(y), or, where GATED, out = activate(gate) · y, with gates from the
// first `outputs` rows of the weight and y from as many after them.

struct Params {
    rows_at: u32,       // the step's word that holds the number of rows of x and out
    columns: u32,       // values in a row of the weight
    blocks: u32,        // blocks of 32 values in a row of the weight, the last perhaps not whole
    outputs: u32,       // outputs of this part of the weight
    first: u32,         // the output that the part's first row makes
    quants: u32,        // where the part begins in quants, in vectors
    scales: u32,        // where the part begins in scales, in words
    gain: u32,          // where the gain begins in its buffer, in quads
    has_bias: u32,      // whether there is a bias, 0 or 1
    bias: u32,          // where the bias begins in its buffer
    x_stride: u32,      // values from row to row of x, a multiple of 32
    out_stride: u32,    // values from row to row of out and gates
    activation: u32,    // as in lib/activation.wgsl
    cap: f32,           // as in lib/activation.wgsl
    scale: f32,         // what product and bias are multiplied by
    epsilon: f32,       // added to the mean square
}

override NORMED: bool = false;
override GATED: bool = false;

@group(0) @binding(0) var<uniform> given: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> bias: array<f32>;
@group(0) @binding(6) var<storage, read> gain: array<vec4<f32>>;

// As in lib/matmul_params.wgsl.
var<private> params: Params;

// Quad `i` of the gain; zero past the last column, where the buffer holds something else.
fn gain_quad(i: u32) -> vec4<f32> {
    return select(vec4<f32>(), gain[params.gain + i], i * 4u < params.columns);
}

// What the sums are multiplied by, where `squares` is the sum of the squares of x.
fn norm_of(squares: f32) -> f32 {
    if (NORMED) {
        return 1.0 / sqrt(squares / f32(params.columns) + params.epsilon);
    }
    return 1.0;
}

// The result for output `column` from its sum and, where GATED, its gate's.
fn result(column: u32, sum: f32, gate: f32) -> f32 {
    var y = sum;
    if (params.has_bias == 1u) {
        y += bias[params.bias + column];
    }
    y *= params.scale;
    if (GATED) {
        return activate(gate) * y;
    }
    return activate(y);
}
