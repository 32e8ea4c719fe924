// out[row] = weight · x[row], for few rows; an invocation owns some outputs of one row at a time.
//
// There is no barrier: software adapters run the invocations of a workgroup one after another and pay
// for every barrier with a change of stacks. What they also pay for is every load from a buffer, about a
// hundred instructions; a private array at a constant index costs one. So a chunk of x (lib/matmul_chunk.wgsl)
// stays in a private array while the weights of a strip of outputs pass by.
// Workgroups (x, y) share the outputs along x and the rows along y; neighbouring invocations of a
// workgroup take neighbouring outputs.

override LANES: u32 = 8u;

// The outputs first, first + LANES and so on below `end`, at most STRIP.
fn multiply(row: u32, first: u32, end: u32) {
    let out_row = row * params.out_stride + params.first;
    let count = (end - first + LANES - 1u) / LANES;
    for (var i = 0u; i < count; i += 1u) {
        sums[i] = begin(out_row + first + i * LANES);
    }
    let x_row = row * (params.x_stride / 4u);
    let last = params.blocks - 1u;
    for (var block = 0u; block < params.blocks; block += CHUNK) {
        // Past the last block, x is zero and weights repeat.
        for (var i = 0u; i < 8u * CHUNK; i += 1u) {
            put(i, select(vec4<f32>(), x[x_row + block * 8u + i], block + i / 8u <= last));
        }
        for (var i = 0u; i < count; i += 1u) {
            sums[i] += early_scale() * chunk_products(first + i * LANES, block, last);
        }
    }
    for (var i = 0u; i < count; i += 1u) {
        out[out_row + first + i * LANES] = sums[i];
    }
    // Software adapters run both sides of a condition, but no loop that nobody enters.
    let unfinished_end = select(first, end, unfinished());
    for (var output = first; output < unfinished_end; output += LANES) {
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
        for (var first = group.x * strip; first < end; first += STRIP * LANES) {
            multiply(row, first + lane, min(first + STRIP * LANES, end));
        }
    }
}
