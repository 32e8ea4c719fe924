// out[row] = weight · x[row], for some rows on a real GPU; a workgroup owns OUTPUTS outputs of ROWS rows.
//
// The plan of matmul_workgroup.wgsl, with every octet of the weight read and dequantised once for all rows:
// what the weight costs in reading is then the same for eight rows as for one.

const OUTPUTS: u32 = 4u;
const ROWS: u32 = 8u;
const LANES: u32 = 64u;

// The sums of OUTPUTS outputs of each row. Every index is constant.
var<private> sums: array<vec4<f32>, ROWS>;

// Every invocation's sums; where in its own a row's lie is turned by its number, so that neighbours that store
// the same row meet no bank twice.
var<workgroup> partial: array<vec4<f32>, ROWS * LANES>;
var<workgroup> halves: array<f32, LANES>;

fn place_of(lane: u32, row: u32) -> u32 {
    return lane * ROWS + (row ^ (lane % ROWS));
}

// `sum` and the products of two quads of x with an octet of four outputs: `low` and `high` are its quads.
fn with_octet(sum: vec4<f32>, at: vec2<u32>, low: mat4x4<f32>, high: mat4x4<f32>) -> vec4<f32> {
    return add_products(add_products(sum, low, x[at.x]), high, x[at.y]);
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    params = given;
    let rows = step[params.rows_at];
    // Neighbouring workgroups share their outputs.
    let deep = (rows + ROWS - 1u) / ROWS;
    let index = group.y * groups.x + group.x;
    let first_row = index % deep * ROWS;
    let first = index / deep * OUTPUTS;

    // What lies past the last repeats it.
    let last = params.outputs - 1u;
    let r = min(vec4<u32>(first, first + 1u, first + 2u, first + 3u), vec4<u32>(last));
    let stride = params.x_stride / 4u;
    let near = stride * min(first_row + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(rows - 1u));
    let far = stride * min(first_row + vec4<u32>(4u, 5u, 6u, 7u), vec4<u32>(rows - 1u));
    let upper = first_row + ROWS / 2u < rows;
    for (var at = lane; at < params.blocks * 4u; at += LANES) {
        let block = at / 4u;
        let octet = at % 4u;
        let a = octet_values(r.x, block, octet);
        let b = octet_values(r.y, block, octet);
        let c = octet_values(r.z, block, octet);
        let d = octet_values(r.w, block, octet);
        let low = transpose(mat4x4<f32>(a[0], b[0], c[0], d[0]));
        let high = transpose(mat4x4<f32>(a[1], b[1], c[1], d[1]));
        let columns = block * 8u + octet_columns(octet);
        sums[0] = with_octet(sums[0], near.x + columns, low, high);
        sums[1] = with_octet(sums[1], near.y + columns, low, high);
        sums[2] = with_octet(sums[2], near.z + columns, low, high);
        sums[3] = with_octet(sums[3], near.w + columns, low, high);
        if (upper) {
            sums[4] = with_octet(sums[4], far.x + columns, low, high);
            sums[5] = with_octet(sums[5], far.y + columns, low, high);
            sums[6] = with_octet(sums[6], far.z + columns, low, high);
            sums[7] = with_octet(sums[7], far.w + columns, low, high);
        }
    }
    partial[place_of(lane, 0u)] = sums[0];
    partial[place_of(lane, 1u)] = sums[1];
    partial[place_of(lane, 2u)] = sums[2];
    partial[place_of(lane, 3u)] = sums[3];
    partial[place_of(lane, 4u)] = sums[4];
    partial[place_of(lane, 5u)] = sums[5];
    partial[place_of(lane, 6u)] = sums[6];
    partial[place_of(lane, 7u)] = sums[7];
    workgroupBarrier();
    // As many sums as half the invocations: each adds half of one, without a barrier after every halving.
    let row = lane / OUTPUTS % ROWS;
    let output = lane % OUTPUTS;
    let first_lane = lane / (OUTPUTS * ROWS) * (LANES / 2u);
    var sum = 0.0;
    for (var i = 0u; i < LANES / 2u; i += 1u) {
        sum += partial[place_of(first_lane + i, row)][output];
    }
    halves[lane] = sum;
    workgroupBarrier();
    if (lane < OUTPUTS * ROWS && first_row + row < rows && first + output <= last) {
        join(first_row + row, first + output, halves[lane] + halves[lane + LANES / 2u]);
    }
}
