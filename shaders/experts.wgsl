// Products of the chosen experts, see lib/experts.wgsl; an invocation owns one item.
//
// There is no barrier: the form for software adapters.

override LANES: u32 = 8u;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let item = item_of((group.y * groups.x + group.x) * LANES + lane);
    if (item.x >= step[0]) {
        return;
    }
    var y = 0.0;
    for (var slot = item.z; slot < item.w; slot += 1u) {
        let weight = weight_row(item, slot);
        if (in_part(weight)) {
            var sum = 0.0;
            for (var at = 0u; at < params.blocks * 4u; at += 1u) {
                sum += octet_product(item, slot, weight, at / 4u, at % 4u);
            }
            y += slot_weight(item, slot) * sum;
        }
    }
    store(item, y);
}
