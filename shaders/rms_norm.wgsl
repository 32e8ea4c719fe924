// out = weight · x / √(mean(x²) + ε), row by row; an invocation owns one row.
//
// There is no barrier: the form for software adapters, and for many rows.

override LANES: u32 = 8u;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = (group.y * groups.x + group.x) * LANES + lane;
    if (row >= step[params.rows_at]) {
        return;
    }
    // Values past the end of a row are zero in x, and what they make is never read.
    let start = row * (params.stride / 4u);
    let quads = (params.columns + 3u) / 4u;
    var sum = 0.0;
    for (var quad = 0u; quad < quads; quad += 1u) {
        let value = x[start + quad];
        sum += dot(value, value);
    }
    let scale = 1.0 / sqrt(sum / f32(params.columns) + params.epsilon);
    for (var quad = 0u; quad < quads; quad += 1u) {
        out[start + quad] = x[start + quad] * scale * weight[params.weight + quad];
    }
}
