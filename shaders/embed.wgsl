// out[row] [+]= scale · weight[index[row]]; an invocation owns one octet of one row.
//
// A part of the weight writes the rows of its own indices only; parts together write every row.

struct Params {
    indices: u32,       // where indices begin in the step: tokens or positions
    columns: u32,       // values in a row of the weight and of out
    blocks: u32,        // blocks of 32 values in a row of the weight
    outputs: u32,       // rows of this part of the weight
    first: u32,         // the index of the part's first row
    quants: u32,        // where the part begins in quants, in vectors
    scales: u32,        // where the part begins in scales, in words
    out_stride: u32,    // values from row to row of out
    add: u32,           // whether out is added to, 0 or 1
    scale: f32,         // what the row is multiplied by
}

override LANES: u32 = 64u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(7) var<storage, read_write> out: array<f32>;

fn store_value(at: u32, column: u32, value: f32) {
    if (column >= params.columns) {
        return;
    }
    var y = params.scale * value;
    if (params.add == 1u) {
        y += out[at + column];
    }
    out[at + column] = y;
}

fn store(at: u32, column: u32, values: vec4<f32>) {
    store_value(at, column, values.x);
    store_value(at, column + 1u, values.y);
    store_value(at, column + 2u, values.z);
    store_value(at, column + 3u, values.w);
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
    let index_of_row = step[params.indices + row];
    if (index_of_row < params.first || index_of_row - params.first >= params.outputs) {
        return;
    }
    let block = index % octets / 4u;
    let octet = index % 4u;
    let values = octet_values(index_of_row - params.first, block, octet);
    let columns = (block * 8u + octet_columns(octet)) * 4u;
    let at = row * params.out_stride;
    store(at, columns.x, values[0]);
    store(at, columns.y, values[1]);
}
