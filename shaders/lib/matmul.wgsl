// How a sum joins `out`, value by value. Needs lib/matmul_params.wgsl.

@group(0) @binding(6) var<storage, read> residual: array<f32>;
@group(0) @binding(7) var<storage, read_write> out: array<f32>;

// What the sum for out[at] begins with.
fn begin(at: u32) -> f32 {
    return select(0.0, out[at], params.join == ADD_OUT);
}

// Completes out[at], which holds the whole sum for output `column`.
fn finish(column: u32, at: u32) {
    var y = out[at];
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
    out[at] = y;
}
