// out[row] = weight · x[row], for many rows; an invocation owns a tile of ROWS rows × OUTPUTS outputs.
//
// There is no barrier (see matmul_vector.wgsl). A weight is dequantised once for ROWS rows, and a value
// of x is loaded once for OUTPUTS outputs. Neighbouring invocations take neighbouring rows of x.
// A workgroup owns LANES · ROWS rows and OUTPUTS outputs; surplus invocations leave at once.

const OUTPUTS: u32 = 8u;
const ROWS: u32 = 4u;
override LANES: u32 = 8u;

fn dots(w: mat2x4<f32>, a: mat4x4<f32>, b: mat4x4<f32>) -> vec4<f32> {
    return vec4<f32>(
        dot8(w, a[0], b[0]), dot8(w, a[1], b[1]), dot8(w, a[2], b[2]), dot8(w, a[3], b[3]));
}

fn finish_rows(row: u32, rows: u32, output: u32, products: vec4<f32>) {
    if (output >= params.outputs) {
        return;
    }
    finish(row, output, products.x);
    if (row + 1u < rows) { finish(row + 1u, output, products.y); }
    if (row + 2u < rows) { finish(row + 2u, output, products.z); }
    if (row + 3u < rows) { finish(row + 3u, output, products.w); }
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let tiles = (params.outputs + OUTPUTS - 1u) / OUTPUTS;
    let index = group.y * groups.x + group.x;
    let row = (index / tiles * LANES + lane) * ROWS;
    let output = index % tiles * OUTPUTS;
    let rows = step[params.rows_at];
    if (row >= rows) {
        return;
    }

    // Rows and outputs past the end repeat the last one and are not stored.
    let last = params.outputs - 1u;
    let r = array<u32, 8>(
        output, min(output + 1u, last), min(output + 2u, last), min(output + 3u, last),
        min(output + 4u, last), min(output + 5u, last), min(output + 6u, last), min(output + 7u, last));
    let x_rows = min(vec4<u32>(row, row + 1u, row + 2u, row + 3u), vec4<u32>(rows - 1u)) * (params.x_stride / 4u);
    var sum = array<vec4<f32>, 8>();
    for (var block = 0u; block < params.blocks; block += 1u) {
        let scale = array<vec2<f32>, 8>(
            block_scale(r[0], block), block_scale(r[1], block),
            block_scale(r[2], block), block_scale(r[3], block),
            block_scale(r[4], block), block_scale(r[5], block),
            block_scale(r[6], block), block_scale(r[7], block));
        for (var octet = 0u; octet < OCTETS; octet += 1u) {
            let column = block * (OCTETS * 2u) + octet_columns(octet);
            let at_a = x_rows + column.x;
            let at_b = x_rows + column.y;
            let a = mat4x4<f32>(x[at_a.x], x[at_a.y], x[at_a.z], x[at_a.w]);
            let b = mat4x4<f32>(x[at_b.x], x[at_b.y], x[at_b.z], x[at_b.w]);
            sum[0] += dots(octet_values(r[0], block, octet, scale[0]), a, b);
            sum[1] += dots(octet_values(r[1], block, octet, scale[1]), a, b);
            sum[2] += dots(octet_values(r[2], block, octet, scale[2]), a, b);
            sum[3] += dots(octet_values(r[3], block, octet, scale[3]), a, b);
            sum[4] += dots(octet_values(r[4], block, octet, scale[4]), a, b);
            sum[5] += dots(octet_values(r[5], block, octet, scale[5]), a, b);
            sum[6] += dots(octet_values(r[6], block, octet, scale[6]), a, b);
            sum[7] += dots(octet_values(r[7], block, octet, scale[7]), a, b);
        }
    }
    finish_rows(row, rows, output, sum[0]);
    finish_rows(row, rows, output + 1u, sum[1]);
    finish_rows(row, rows, output + 2u, sum[2]);
    finish_rows(row, rows, output + 3u, sum[3]);
    finish_rows(row, rows, output + 4u, sum[4]);
    finish_rows(row, rows, output + 5u, sum[5]);
    finish_rows(row, rows, output + 6u, sum[6]);
    finish_rows(row, rows, output + 7u, sum[7]);
}
