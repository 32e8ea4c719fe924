// Normalisation, products and gating in one (lib/matmul_fused.wgsl), for few rows; an invocation owns some
// outputs of one row at a time.
//
// The plan of matmul_vector.wgsl: a chunk of x stays in a private array while the weights of all outputs
// pass by, and sums wait in `out` and `gates` between chunks. There is no barrier: every invocation sums
// the squares of x itself.

override LANES: u32 = 8u;

@group(0) @binding(7) var<storage, read_write> gates: array<f32>;
@group(0) @binding(8) var<storage, read_write> out: array<f32>;

fn multiply(row: u32, first: u32, end: u32) {
    let out_row = row * params.out_stride + params.first;
    for (var output = first; output < end; output += LANES) {
        out[out_row + output] = 0.0;
        if (GATED) {
            gates[out_row + output] = 0.0;
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
        for (var output = first; output < end; output += LANES) {
            if (GATED) {
                gates[out_row + output] += chunk_products(output, block, last);
                out[out_row + output] += chunk_products(params.outputs + output, block, last);
            } else {
                out[out_row + output] += chunk_products(output, block, last);
            }
        }
    }
    let norm = norm_of(squares);
    for (var output = first; output < end; output += LANES) {
        var gate = 0.0;
        if (GATED) {
            gate = norm * gates[out_row + output];
        }
        out[out_row + output] = result(params.first + output, norm * out[out_row + output], gate);
    }
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let strip = (params.outputs + groups.x * LANES - 1u) / (groups.x * LANES) * LANES;
    let end = min(group.x * strip + strip, params.outputs);
    for (var row = group.y; row < step[params.rows_at]; row += groups.y) {
        multiply(row, group.x * strip + lane, end);
    }
}
