// How a sum joins `out`, value by value. Needs lib/matmul_params.wgsl.

@group(0) @binding(6) var<storage, read> residual: array<f32>;
@group(0) @binding(7) var<storage, read_write> out: array<f32>;

// What the sum for out[at] begins with.
fn begin(at: u32) -> f32 {
    return select(0.0, out[at], params.join == ADD_OUT);
}

// What out[at] is to be, where `sum` is the whole sum for output `column`.
fn finished(sum: f32, column: u32, at: u32) -> f32 {
    var y = sum;
    if (params.has_bias == 1u) {
        y += early_scale() * bias[params.bias + column];
    }
    if (params.join != ADD_OUT) {
        y *= params.scale;
    }
    if (params.join == ADD_RESIDUAL) {
        y += residual[at];
    } else if (params.join == GATE_RESIDUAL) {
        y *= activate(residual[at]);
    } else if (params.join != ADD_OUT) {
        y = activate(y);
    }
    return y;
}

// Stores output `output` of this part of the weight, where `sum` is its sum of products.
fn join(row: u32, output: u32, sum: f32) {
    let column = params.first + output;
    let at = row * params.out_stride + column;
    out[at] = finished(begin(at) + early_scale() * sum, column, at);
}

// Completes out[at], which holds the whole sum for output `column`.
fn finish(column: u32, at: u32) {
    out[at] = finished(out[at], column, at);
}

// `sum` and the products of a quad of x with a quad of columns of four outputs: column by column, so that nothing
// is added but products.
fn add_products(sum: vec4<f32>, w: mat4x4<f32>, quad: vec4<f32>) -> vec4<f32> {
    return w[3] * quad.w + (w[2] * quad.z + (w[1] * quad.y + (w[0] * quad.x + sum)));
}
