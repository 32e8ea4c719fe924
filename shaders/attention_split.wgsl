// Attention over a part of the positions, for heads of 16, 32… 128 values; an invocation owns GROUP query
// heads of one key-value head of one row, and every splits-th position.
//
// One pass with a running maximum (Milakov and Gimelshein 2018): where a score is above all before it,
// what was summed is scaled down. Keys and values are loaded once for all heads of the group
// (lib/attention_tiles.wgsl). There is no barrier. attention_merge.wgsl joins the parts, so that short
// steps over a long context have work for every core.

override LANES: u32 = 8u;

@group(0) @binding(5) var<storage, read_write> out: array<vec4<f32>>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    // Neighbours take neighbouring splits, or, where there is one, neighbouring rows.
    let rows = step[0];
    let splits = max(params.splits / rows, 1u);
    let index = (group.y * groups.x + group.x) * LANES + lane;
    let split = index % splits;
    let row = index / splits % rows;
    let head = index / splits / rows * GROUP;
    if (head >= params.heads) {
        return;
    }
    let start = row * (params.stride / 4u) + head * params.quads;
    load_queries(start);
    let position = step[params.positions + row];
    let slot = step[params.slots + row];
    let kv_start = head / (params.heads / params.kv_heads) * params.quads;
    for (var j = first_seen(position) + split; j <= position; j += splits) {
        let at = entry_of(slot, j) * params.kv_heads * params.quads + kv_start;
        attend(at);
    }
    store_parts((row * params.heads + head) * splits + split, splits);
}
