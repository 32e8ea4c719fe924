// out[row] = weight · x[row], for few rows; an invocation owns OUTPUTS consecutive outputs of one row.
//
// There is no barrier: software adapters run invocations of a workgroup one after another and pay for
// every barrier with a change of stacks. Several outputs share each load of x.
// A workgroup owns LANES · OUTPUTS outputs of one row; surplus invocations leave at once.

const OUTPUTS: u32 = 8u;
override LANES: u32 = 16u;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let tiles = (params.outputs + LANES * OUTPUTS - 1u) / (LANES * OUTPUTS);
    let index = group.y * groups.x + group.x;
    let row = index / tiles;
    let output = (index % tiles * LANES + lane) * OUTPUTS;
    if (row >= step[params.rows_at] || output >= params.outputs) {
        return;
    }

    // Outputs past the end repeat the last one and are not stored.
    let last = params.outputs - 1u;
    let r = array<u32, 8>(
        output, min(output + 1u, last), min(output + 2u, last), min(output + 3u, last),
        min(output + 4u, last), min(output + 5u, last), min(output + 6u, last), min(output + 7u, last));
    let x_row = row * (params.x_stride / 4u);
    var low = vec4<f32>();
    var high = vec4<f32>();
    for (var block = 0u; block < params.blocks; block += 1u) {
        let scale = array<vec2<f32>, 8>(
            block_scale(r[0], block), block_scale(r[1], block),
            block_scale(r[2], block), block_scale(r[3], block),
            block_scale(r[4], block), block_scale(r[5], block),
            block_scale(r[6], block), block_scale(r[7], block));
        for (var octet = 0u; octet < OCTETS; octet += 1u) {
            let column = x_row + block * (OCTETS * 2u) + octet_columns(octet);
            let a = x[column.x];
            let b = x[column.y];
            low += vec4<f32>(
                dot8(octet_values(r[0], block, octet, scale[0]), a, b),
                dot8(octet_values(r[1], block, octet, scale[1]), a, b),
                dot8(octet_values(r[2], block, octet, scale[2]), a, b),
                dot8(octet_values(r[3], block, octet, scale[3]), a, b));
            high += vec4<f32>(
                dot8(octet_values(r[4], block, octet, scale[4]), a, b),
                dot8(octet_values(r[5], block, octet, scale[5]), a, b),
                dot8(octet_values(r[6], block, octet, scale[6]), a, b),
                dot8(octet_values(r[7], block, octet, scale[7]), a, b));
        }
    }
    finish(row, output, low.x);
    if (output + 1u <= last) { finish(row, output + 1u, low.y); }
    if (output + 2u <= last) { finish(row, output + 2u, low.z); }
    if (output + 3u <= last) { finish(row, output + 3u, low.w); }
    if (output + 4u <= last) { finish(row, output + 4u, high.x); }
    if (output + 5u <= last) { finish(row, output + 5u, high.y); }
    if (output + 6u <= last) { finish(row, output + 6u, high.z); }
    if (output + 7u <= last) { finish(row, output + 7u, high.w); }
}
