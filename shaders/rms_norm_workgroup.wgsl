// out = weight · x / √(mean(x²) + ε), row by row; a workgroup owns one row.
//
// The form for real GPUs. LANES is a power of two.

override LANES: u32 = 64u;

var<workgroup> partial: array<f32, LANES>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    // Values past the end of a row are zero in x, and what they make is never read.
    let row = group.y * groups.x + group.x;
    let start = row * (params.stride / 4u);
    let quads = select(0u, (params.columns + 3u) / 4u, row < step[params.rows_at]);
    var sum = 0.0;
    for (var quad = lane; quad < quads; quad += LANES) {
        let value = x[start + quad];
        sum += dot(value, value);
    }
    partial[lane] = sum;
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (lane < half) {
            partial[lane] += partial[lane + half];
        }
    }
    workgroupBarrier();
    let scale = 1.0 / sqrt(partial[0] / f32(params.columns) + params.epsilon);
    for (var quad = lane; quad < quads; quad += LANES) {
        out[start + quad] = x[start + quad] * scale * weight[params.weight + quad];
    }
}
