// Normalisation, see lib/norm.wgsl; an invocation owns one group.
//
// There is no barrier: the form for software adapters, and for many short groups.

override LANES: u32 = 8u;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = (group.y * groups.x + group.x) * LANES + lane;
    let row = index / params.groups;
    let own = index % params.groups;
    if (row >= step[params.rows_at]) {
        return;
    }
    let start = row * params.stride + own * params.items;
    var mean = 0.0;
    if (CENTRED) {
        for (var i = 0u; i < params.items; i += 1u) {
            mean += total(x[start + i]);
        }
        mean /= f32(params.size);
    }
    var sum = 0.0;
    for (var i = 0u; i < params.items; i += 1u) {
        sum += square(centred(start, i, mean));
    }
    let scale = 1.0 / sqrt(sum / f32(params.size) + params.epsilon);
    for (var i = 0u; i < params.items; i += 1u) {
        store(start, i, own, mean, scale);
    }
}
