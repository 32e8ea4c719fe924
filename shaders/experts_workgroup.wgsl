// Products of the chosen experts, see lib/experts.wgsl; a workgroup owns one item.
//
// The form for real GPUs: neighbouring invocations read neighbouring octets. LANES is a power of two,
// at most 64: naga 30 does not process an array whose size is an override beside these fragments.

override LANES: u32 = 64u;

var<workgroup> partial: array<f32, 64>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let item = item_of(group.y * groups.x + group.x);
    let inside = item.x < step[0];
    var y = 0.0;
    for (var slot = item.z; slot < item.w && inside; slot += 1u) {
        let weight = weight_row(item, slot);
        if (in_part(weight)) {
            var sum = 0.0;
            for (var at = lane; at < params.blocks * 4u; at += LANES) {
                sum += octet_product(item, slot, weight, at / 4u, at % 4u);
            }
            y += slot_weight(item, slot) * sum;
        }
    }
    partial[lane] = y;
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (lane < half) {
            partial[lane] += partial[lane + half];
        }
    }
    workgroupBarrier();
    if (lane == 0u && inside) {
        store(item, partial[0]);
    }
}
