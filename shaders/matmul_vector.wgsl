// out[row] = weight · x[row], for few rows; an invocation owns some outputs of one row at a time.
//
// There is no barrier: software adapters run the invocations of a workgroup one after another and pay
// for every barrier with a change of stacks. What they also pay for is every load from a buffer, about a
// hundred instructions; a private array at a constant index costs one. So three blocks of x are kept in a
// private array while the weights of all outputs pass by, and sums wait in `out` between chunks.
// Workgroups (x, y) share the outputs along x and the rows along y; neighbouring invocations of a
// workgroup take neighbouring outputs.

override LANES: u32 = 8u;

const CHUNK: u32 = 3u; // blocks
var<private> chunk: array<vec4<f32>, 8 * CHUNK>;

// The sum of the quads of block `number` of the chunk, which were multiplied by their places.
fn chunk_total(number: u32) -> f32 {
    let at = number * 8u;
    return dot(chunk[at], 1.0 / place(0u)) + dot(chunk[at + 1u], 1.0 / place(1u))
        + dot(chunk[at + 2u], 1.0 / place(2u)) + dot(chunk[at + 3u], 1.0 / place(3u))
        + dot(chunk[at + 4u], 1.0 / place(4u)) + dot(chunk[at + 5u], 1.0 / place(5u))
        + dot(chunk[at + 6u], 1.0 / place(6u)) + dot(chunk[at + 7u], 1.0 / place(7u));
}

// A block of the weight times block `number` of the chunk, whose sum is `total`.
fn chunk_product(output: u32, block: u32, number: u32, total: f32) -> f32 {
    let at = number * 8u;
    let scale = block_scale(output, block);
    let w = block_quants(output, block);
    let sum = dot(w[0], chunk[at]) + dot(w[1], chunk[at + 1u])
        + dot(w[2], chunk[at + 2u]) + dot(w[3], chunk[at + 3u])
        + dot(w[4], chunk[at + 4u]) + dot(w[5], chunk[at + 5u])
        + dot(w[6], chunk[at + 6u]) + dot(w[7], chunk[at + 7u]);
    return scale.x * sum + scale.y * total;
}

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
            let quad = x[x_row + block * 8u + i] * place(i % 8u);
            chunk[i] = select(vec4<f32>(), quad, block + i / 8u <= last);
        }
        let total = vec3<f32>(chunk_total(0u), chunk_total(1u), chunk_total(2u));
        let block_1 = min(block + 1u, last);
        let block_2 = min(block + 2u, last);
        for (var output = first; output < end; output += LANES) {
            out[out_row + output] += chunk_product(output, block, 0u, total.x)
                + chunk_product(output, block_1, 1u, total.y)
                + chunk_product(output, block_2, 2u, total.z);
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
    let strip = (params.outputs + groups.x * LANES - 1u) / (groups.x * LANES) * LANES;
    let end = min(group.x * strip + strip, params.outputs);
    for (var row = group.y; row < step[params.rows_at]; row += groups.y) {
        multiply(row, group.x * strip + lane, end);
    }
}
