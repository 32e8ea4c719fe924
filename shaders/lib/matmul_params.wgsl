// What the forms of matrix multiplication share: y = scale · (x · weightᵀ [+ bias]), and how y
// joins `out`. Columns are in blocks of 32; x is zero between the last column and the end of its block.

struct Params {
    rows_at: u32,       // the step's word that holds the number of rows of x and out
    columns: u32,       // values in a row of the weight
    blocks: u32,        // blocks in a row of the weight
    outputs: u32,       // rows of this part of the weight
    first: u32,         // the output that the part's first row makes
    quants: u32,        // where the part begins in quants, in vectors
    scales: u32,        // where the part begins in scales, in words
    has_bias: u32,      // whether there is a bias, 0 or 1
    bias: u32,          // where the bias begins in its buffer
    join: u32,          // one of the four below
    x_stride: u32,      // values from row to row of x, a multiple of 32
    out_stride: u32,    // values from row to row of out and residual
    activation: u32,    // as in lib/activation.wgsl
    cap: f32,           // as in lib/activation.wgsl
    scale: f32,         // what product and bias are multiplied by
}

const ADD_OUT: u32 = 1u;       // out = y + out
const ADD_RESIDUAL: u32 = 2u;  // out = y + residual
const GATE_RESIDUAL: u32 = 3u; // out = activate(residual) · y; anything else: out = activate(y)

@group(0) @binding(0) var<uniform> given: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> bias: array<f32>;

// What is given, in registers: software adapters read a uniform anew wherever it is used, once for each
// invocation, and inside loops that counts. `main` begins with taking it over.
var<private> params: Params;

// What products are multiplied by before they are added: `out` is added to as it is, all else scaled once.
fn early_scale() -> f32 {
    return select(1.0, params.scale, params.join == ADD_OUT);
}

// Whether sums are not yet what `out` is to hold.
fn unfinished() -> bool {
    return params.has_bias == 1u || params.activation != 0u || params.scale != 1.0
        || params.join == ADD_RESIDUAL || params.join == GATE_RESIDUAL;
}
