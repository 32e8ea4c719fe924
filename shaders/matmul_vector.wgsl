// out[row] = weight · x[row], for few rows; an invocation owns some outputs of one row at a time.
//
// There is no barrier: software adapters run the invocations of a workgroup one after another and pay
// for every barrier with a change of stacks. What they also pay for is every load from a buffer, about a
// hundred instructions; a private array at a constant index costs one. So a chunk of x (lib/matmul_chunk.wgsl)
// stays in a private array while the weights of all outputs pass by, and sums wait in `out` between chunks.
// Workgroups (x, y) share the outputs along x and the rows along y; neighbouring invocations of a
// workgroup take neighbouring outputs.

override LANES: u32 = 8u;

fn multiply(row: u32, first: u32, end: u32) {
    let out_row = row * params.out_stride + params.first;
    for (var output = first; output < end; output += LANES) {
        out[out_row + output] = begin(out_row + output);
    }
    let x_row = row * (params.x_stride / 4u);
    let last = params.blocks - 1u;
    for (var block = 0u; block < params.blocks; block += CHUNK) {
        // Past the last block, x is zero and weights repeat.
        for (var i = 0u; i < 8u * CHUNK; i += 1u) {
            put(i, select(vec4<f32>(), x[x_row + block * 8u + i], block + i / 8u <= last));
        }
        for (var output = first; output < end; output += LANES) {
            out[out_row + output] += early_scale() * chunk_products(output, block, last);
        }
    }
    for (var output = first; output < end; output += LANES) {
        finish(params.first + output, out_row + output);
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
        multiply(row, group.x * strip + lane, end);
    }
}
