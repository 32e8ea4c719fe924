// out[row] = weight · x[row], for several rows; an invocation owns some outputs of ROWS rows at a time.
//
// The same plan as matmul_vector.wgsl, with a weight dequantised once for ROWS rows: three blocks of each
// row of x are kept in private arrays while the weights of all outputs pass by.
// Workgroups (x, y) share the outputs along x and the rows along y. Neighbouring invocations of a workgroup
// take neighbouring outputs of the same rows where BY_OUTPUTS, so that none is idle where there are few rows;
// otherwise neighbouring groups of rows, and then all read the same weights.

override LANES: u32 = 8u;
override BY_OUTPUTS: bool = false;

const ROWS: u32 = 4u;
const CHUNK: u32 = 3u; // blocks
var<private> a: array<vec4<f32>, 8 * CHUNK>;
var<private> b: array<vec4<f32>, 8 * CHUNK>;
var<private> c: array<vec4<f32>, 8 * CHUNK>;
var<private> d: array<vec4<f32>, 8 * CHUNK>;
// The sums of each row's blocks, in memory for the reason in lib/matmul_chunk.wgsl.
var<private> totals: array<vec4<f32>, CHUNK>;

// The products of four weights with quad `i` of each row's chunk.
fn dots(w: vec4<f32>, i: u32) -> vec4<f32> {
    return vec4<f32>(dot(w, a[i]), dot(w, b[i]), dot(w, c[i]), dot(w, d[i]));
}

// A block of the weight times block `number` of the chunk.
fn chunk_products(output: u32, block: u32, number: u32) -> vec4<f32> {
    let at = number * 8u;
    let scale = block_scale(output, block);
    let w = block_quants(output, block);
    let sums = dots(w[0], at) + dots(w[1], at + 1u) + dots(w[2], at + 2u) + dots(w[3], at + 3u)
        + dots(w[4], at + 4u) + dots(w[5], at + 5u) + dots(w[6], at + 6u) + dots(w[7], at + 7u);
    return scale.x * sums + scale.y * totals[number];
}

// Outputs from `first` on, `apart` from one to the next, of the rows from `row` on.
fn multiply(row: u32, rows: u32, first: u32, end: u32, apart: u32) {
    // Rows past the end repeat the last one: they compute and store the same.
    let row_numbers = min(vec4<u32>(row, row + 1u, row + 2u, row + 3u), vec4<u32>(rows - 1u));
    let out_rows = row_numbers * params.out_stride + params.first;
    let count = min(rows - row, ROWS);
    for (var i = 0u; i < count; i += 1u) {
        for (var output = first; output < end; output += apart) {
            let at = (row + i) * params.out_stride + params.first + output;
            out[at] = begin(at);
        }
    }
    let x_rows = row_numbers * (params.x_stride / 4u);
    let last = params.blocks - 1u;
    for (var block = 0u; block < params.blocks; block += CHUNK) {
        // Past the last block, x is zero and weights repeat.
        for (var i = 0u; i < 8u * CHUNK; i += 1u) {
            let inside = block + i / 8u <= last;
            let at = x_rows + block * 8u + i;
            a[i] = select(vec4<f32>(), x[at.x], inside);
            b[i] = select(vec4<f32>(), x[at.y], inside);
            c[i] = select(vec4<f32>(), x[at.z], inside);
            d[i] = select(vec4<f32>(), x[at.w], inside);
            let before = select(totals[i / 8u], vec4<f32>(), i % 8u == 0u);
            totals[i / 8u] = before + dots(vec4<f32>(1.0), i);
            a[i] *= place(i % 8u);
            b[i] *= place(i % 8u);
            c[i] *= place(i % 8u);
            d[i] *= place(i % 8u);
        }
        let block_1 = min(block + 1u, last);
        let block_2 = min(block + 2u, last);
        for (var output = first; output < end; output += apart) {
            let at = out_rows + output;
            let products = chunk_products(output, block, 0u)
                + chunk_products(output, block_1, 1u)
                + chunk_products(output, block_2, 2u);
            let sums = vec4<f32>(out[at.x], out[at.y], out[at.z], out[at.w]) + early_scale() * products;
            out[at.x] = sums.x;
            out[at.y] = sums.y;
            out[at.z] = sums.z;
            out[at.w] = sums.w;
        }
    }
    for (var i = 0u; i < count; i += 1u) {
        for (var output = first; output < end; output += apart) {
            finish(params.first + output, (row + i) * params.out_stride + params.first + output);
        }
    }
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    params = given;
    let across = select(1u, LANES, BY_OUTPUTS); // outputs side by side
    let deep = select(LANES, 1u, BY_OUTPUTS);   // groups of rows side by side
    let strip = (params.outputs + groups.x * across - 1u) / (groups.x * across) * across;
    let first = group.x * strip + select(0u, lane, BY_OUTPUTS);
    let end = min(group.x * strip + strip, params.outputs);
    let rows = step[params.rows_at];
    let skip = select(lane, 0u, BY_OUTPUTS);
    for (var row = (group.y * deep + skip) * ROWS; row < rows; row += groups.y * deep * ROWS) {
        multiply(row, rows, first, end, across);
    }
}
