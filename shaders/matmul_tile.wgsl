// out[row] = weight · x[row], for many rows; an invocation owns some outputs of ROWS rows at a time.
//
// The same plan as matmul_vector.wgsl, with a weight dequantised once for ROWS rows: three blocks of each
// row of x are kept in private arrays while the weights of all outputs pass by.
// Workgroups (x, y) share the outputs along x and the rows along y; neighbouring invocations of a
// workgroup take neighbouring groups of rows.

override LANES: u32 = 8u;

const ROWS: u32 = 4u;
const CHUNK: u32 = 3u; // blocks
var<private> a: array<vec4<f32>, 8 * CHUNK>;
var<private> b: array<vec4<f32>, 8 * CHUNK>;
var<private> c: array<vec4<f32>, 8 * CHUNK>;
var<private> d: array<vec4<f32>, 8 * CHUNK>;

// The products of four weights, or of four other numbers, with quad `i` of each row's chunk.
fn dots(w: vec4<f32>, i: u32) -> vec4<f32> {
    return vec4<f32>(dot(w, a[i]), dot(w, b[i]), dot(w, c[i]), dot(w, d[i]));
}

// The sums of the quads of block `number` of the chunk, which were multiplied by their places.
fn chunk_totals(number: u32) -> vec4<f32> {
    let at = number * 8u;
    return dots(1.0 / place(0u), at) + dots(1.0 / place(1u), at + 1u)
        + dots(1.0 / place(2u), at + 2u) + dots(1.0 / place(3u), at + 3u)
        + dots(1.0 / place(4u), at + 4u) + dots(1.0 / place(5u), at + 5u)
        + dots(1.0 / place(6u), at + 6u) + dots(1.0 / place(7u), at + 7u);
}

// A block of the weight times block `number` of the chunk, whose sums are `totals`.
fn chunk_products(output: u32, block: u32, number: u32, totals: vec4<f32>) -> vec4<f32> {
    let at = number * 8u;
    let scale = block_scale(output, block);
    let w = block_quants(output, block);
    let sums = dots(w[0], at) + dots(w[1], at + 1u) + dots(w[2], at + 2u) + dots(w[3], at + 3u)
        + dots(w[4], at + 4u) + dots(w[5], at + 5u) + dots(w[6], at + 6u) + dots(w[7], at + 7u);
    return scale.x * sums + scale.y * totals;
}

fn multiply(row: u32, rows: u32, first: u32, end: u32) {
    // Rows past the end repeat the last one: they compute and store the same.
    let row_numbers = min(vec4<u32>(row, row + 1u, row + 2u, row + 3u), vec4<u32>(rows - 1u));
    let out_rows = row_numbers * params.out_stride + params.first;
    let count = min(rows - row, ROWS);
    for (var i = 0u; i < count; i += 1u) {
        for (var output = first; output < end; output += 1u) {
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
            a[i] = select(vec4<f32>(), x[at.x] * place(i % 8u), inside);
            b[i] = select(vec4<f32>(), x[at.y] * place(i % 8u), inside);
            c[i] = select(vec4<f32>(), x[at.z] * place(i % 8u), inside);
            d[i] = select(vec4<f32>(), x[at.w] * place(i % 8u), inside);
        }
        let totals_0 = chunk_totals(0u);
        let totals_1 = chunk_totals(1u);
        let totals_2 = chunk_totals(2u);
        let block_1 = min(block + 1u, last);
        let block_2 = min(block + 2u, last);
        for (var output = first; output < end; output += 1u) {
            let at = out_rows + output;
            let products = chunk_products(output, block, 0u, totals_0)
                + chunk_products(output, block_1, 1u, totals_1)
                + chunk_products(output, block_2, 2u, totals_2);
            let sums = vec4<f32>(out[at.x], out[at.y], out[at.z], out[at.w]) + early_scale() * products;
            out[at.x] = sums.x;
            out[at.y] = sums.y;
            out[at.z] = sums.z;
            out[at.w] = sums.w;
        }
    }
    for (var i = 0u; i < count; i += 1u) {
        for (var output = first; output < end; output += 1u) {
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
    let strip = (params.outputs + groups.x - 1u) / groups.x;
    let first = group.x * strip;
    let end = min(first + strip, params.outputs);
    let rows = step[params.rows_at];
    for (var row = (group.y * LANES + lane) * ROWS; row < rows; row += groups.y * LANES * ROWS) {
        multiply(row, rows, first, end);
    }
}
