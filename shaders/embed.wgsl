// out[row] = weight[token[row]]; an invocation owns one octet of one row.
//
// A part of the weight writes the rows of its own tokens only; parts together write every row.

struct Params {
    tokens: u32,        // where tokens begin in the step
    columns: u32,       // values in a row of the weight and of out
    blocks: u32,        // blocks of 32 values in a row of the weight
    outputs: u32,       // rows of this part of the weight
    first: u32,         // the token of the part's first row
    quants: u32,        // where the part begins in quants, in vectors
    scales: u32,        // where the part begins in scales, in words
    out_stride: u32,    // values from row to row of out
}

override LANES: u32 = 64u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(7) var<storage, read_write> out: array<f32>;

fn store(at: u32, column: u32, values: vec4<f32>) {
    if (column < params.columns) { out[at + column] = values.x; }
    if (column + 1u < params.columns) { out[at + column + 1u] = values.y; }
    if (column + 2u < params.columns) { out[at + column + 2u] = values.z; }
    if (column + 3u < params.columns) { out[at + column + 3u] = values.w; }
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let octets = params.blocks * 4u;
    let index = (group.y * groups.x + group.x) * LANES + lane;
    let row = index / octets;
    if (row >= step[0]) {
        return;
    }
    let token = step[params.tokens + row];
    if (token < params.first || token - params.first >= params.outputs) {
        return;
    }
    let block = index % octets / 4u;
    let octet = index % 4u;
    let values = octet_values(token - params.first, block, octet);
    let columns = (block * 8u + octet_columns(octet)) * 4u;
    let at = row * params.out_stride;
    store(at, columns.x, values[0]);
    store(at, columns.y, values[1]);
}
