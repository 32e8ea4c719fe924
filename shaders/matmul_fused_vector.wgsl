// Normalisation, products and gating in one (lib/matmul_fused.wgsl), for few rows; an invocation owns some
// outputs of one row at a time.
//
// The plan of matmul_vector.wgsl: a chunk of x stays in a private array while the weights of all outputs
// pass by. There is no barrier: every invocation sums the squares of x itself.

override LANES: u32 = 8u;

@group(0) @binding(8) var<storage, read_write> out: array<f32>;

var<private> gates: array<f32, STRIP>;

// The outputs first, first + LANES and so on below `end`, at most STRIP.
fn multiply(row: u32, first: u32, end: u32) {
    let count = (end - first + LANES - 1u) / LANES;
    for (var i = 0u; i < count; i += 1u) {
        sums[i] = 0.0;
        if (GATED) {
            gates[i] = 0.0;
        }
    }
    let x_row = row * (params.x_stride / 4u);
    let last = params.blocks - 1u;
    var squares = 0.0;
    for (var block = 0u; block < params.blocks; block += CHUNK) {
        // Past the last block, x is zero and weights repeat.
        for (var i = 0u; i < 8u * CHUNK; i += 1u) {
            var quad = select(vec4<f32>(), x[x_row + block * 8u + i], block + i / 8u <= last);
            if (NORMED) {
                squares += dot(quad, quad);
                quad *= gain_quad(block * 8u + i);
            }
            put(i, quad);
        }
        for (var i = 0u; i < count; i += 1u) {
            let output = first + i * LANES;
            if (GATED) {
                gates[i] += chunk_products(output, block, last);
                sums[i] += chunk_products(params.outputs + output, block, last);
            } else {
                sums[i] += chunk_products(output, block, last);
            }
        }
    }
    let norm = norm_of(squares);
    let out_row = row * params.out_stride + params.first;
    for (var i = 0u; i < count; i += 1u) {
        var gate = 0.0;
        if (GATED) {
            gate = norm * gates[i];
        }
        let output = first + i * LANES;
        out[out_row + output] = result(params.first + output, norm * sums[i], gate);
    }
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    params = given;
    let strip = (params.outputs + groups.x * LANES - 1u) / (groups.x * LANES) * LANES;
    let end = min(group.x * strip + strip, params.outputs);
    for (var row = group.y; row < step[params.rows_at]; row += groups.y) {
        for (var first = group.x * strip; first < end; first += STRIP * LANES) {
            multiply(row, first + lane, min(first + STRIP * LANES, end));
        }
    }
}
