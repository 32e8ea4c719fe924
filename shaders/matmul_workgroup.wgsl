// out[row] = weight · x[row], for few rows on a real GPU; a workgroup owns OUTPUTS outputs of one row.
//
// Neighbouring invocations read neighbouring octets of the weight, so loads coalesce; the partial sums
// are added in workgroup memory. LANES is a power of two.

const OUTPUTS: u32 = 4u;
override LANES: u32 = 64u;

var<workgroup> partial: array<vec4<f32>, LANES>;

fn dot8(w: mat2x4<f32>, a: vec4<f32>, b: vec4<f32>) -> f32 {
    return dot(w[0], a) + dot(w[1], b);
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    params = given;
    let tiles = (params.outputs + OUTPUTS - 1u) / OUTPUTS;
    let index = group.y * groups.x + group.x;
    let row = index / tiles;
    let output = index % tiles * OUTPUTS;
    let inside = row < step[params.rows_at];

    let last = params.outputs - 1u;
    let r = min(vec4<u32>(output, output + 1u, output + 2u, output + 3u), vec4<u32>(last));
    let x_row = row * (params.x_stride / 4u);
    let octets = select(0u, params.blocks * 4u, inside);
    var sum = vec4<f32>();
    for (var at = lane; at < octets; at += LANES) {
        let block = at / 4u;
        let octet = at % 4u;
        let column = x_row + block * 8u + octet_columns(octet);
        let a = x[column.x];
        let b = x[column.y];
        sum += vec4<f32>(
            dot8(octet_values(r.x, block, octet), a, b), dot8(octet_values(r.y, block, octet), a, b),
            dot8(octet_values(r.z, block, octet), a, b), dot8(octet_values(r.w, block, octet), a, b));
    }
    partial[lane] = sum;
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (lane < half) {
            partial[lane] += partial[lane + half];
        }
    }
    workgroupBarrier();
    if (lane < OUTPUTS && output + lane <= last && inside) {
        join(row, output + lane, partial[0][lane]);
    }
}
