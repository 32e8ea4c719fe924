// Normalisation, see lib/norm.wgsl; a workgroup owns one group.
//
// The form for real GPUs. LANES is a power of two.

override LANES: u32 = 64u;

var<workgroup> partial: array<f32, LANES>;

// The sum of every lane's `value`, in every lane.
fn sum_of_lanes(lane: u32, value: f32) -> f32 {
    workgroupBarrier();
    partial[lane] = value;
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (lane < half) {
            partial[lane] += partial[lane + half];
        }
    }
    workgroupBarrier();
    return partial[0];
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = group.y * groups.x + group.x;
    let row = index / params.groups;
    let own = index % params.groups;
    let start = row * params.stride + own * params.items;
    let items = select(0u, params.items, row < step[params.rows_at]);
    var mean = 0.0;
    if (CENTRED) {
        for (var i = lane; i < items; i += LANES) {
            mean += total(x[start + i]);
        }
        mean = sum_of_lanes(lane, mean) / f32(params.size);
    }
    var sum = 0.0;
    for (var i = lane; i < items; i += LANES) {
        sum += square(centred(start, i, mean));
    }
    let scale = 1.0 / sqrt(sum_of_lanes(lane, sum) / f32(params.size) + params.epsilon);
    for (var i = lane; i < items; i += LANES) {
        store(start, i, own, mean, scale);
    }
}
