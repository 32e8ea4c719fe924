// Rotary embedding, storing and attention in one (lib/attention_rotary.wgsl), by the plan of attention_split.wgsl.
//
// An invocation owns GROUP query heads of one key-value head of one row, and every splits-th position. It
// rotates its queries on loading them. The row's own position is in no cache yet: the invocation that owns
// it takes key and value from the row and, for the first heads of a key-value head, stores them. There is
// no barrier. attention_merge.wgsl joins the parts.

override LANES: u32 = 8u;

// Instead of the place of an entry: that of the row's own position, which is in these arrays.
const OWN: u32 = 0xffffffffu;
var<private> own_keys: array<mat4x4<f32>, 8>;
var<private> own_values: array<mat4x4<f32>, 8>;

fn key_tile(at: u32, tile: u32) -> mat4x4<f32> {
    if (at == OWN) {
        return own_keys[tile];
    }
    return cached_key(at, tile);
}

fn value_tile(at: u32, tile: u32) -> mat4x4<f32> {
    if (at == OWN) {
        return own_values[tile];
    }
    return cached_value(at, tile);
}

// Takes the key and value of the head that begin at quads `k` and `v` as the cache will hold them, and
// stores them at quad `at` if `keep`.
fn take_own(k: u32, v: u32, turn: u32, at: u32, keep: bool) {
    for (var i = 0u; i < params.quads; i += 1u) {
        let key = pack_quad(rotated(k, i, turn));
        let value = pack_quad(qkv[v + i]);
        own_keys[i / 4u][i % 4u] = unpack_quad(key);
        own_values[i / 4u][i % 4u] = unpack_quad(value);
        if (keep) {
            keys[at + i] = key;
            values[at + i] = value;
        }
    }
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let rows = step[0];
    let splits = max(params.splits / rows, 1u);
    let index = (group.y * groups.x + group.x) * LANES + lane;
    let split = index % splits;
    let row = index / splits % rows;
    let head = index / splits / rows * GROUP;
    if (head >= params.heads) {
        return;
    }
    let position = step[params.positions + row];
    let slot = step[params.slots + row];
    let turn = turn_of(row);
    let start = row * params.stride;
    for (var i = 0u; i < GROUP * params.quads; i += 1u) {
        let own = i / params.quads;
        let quad = i % params.quads;
        let query = rotated(start + (head + own) * params.quads, quad, turn);
        queries[own * 8u + quad / 4u][quad % 4u] = params.scale * query;
    }
    let shared_by = params.heads / params.kv_heads;
    let kv_start = head / shared_by * params.quads;
    for (var j = first_seen(position) + split; j <= position; j += splits) {
        var at = entry_of(slot, j) * params.kv_heads * params.quads + kv_start;
        if (j == position) {
            let k = start + params.k_at + kv_start;
            take_own(k, start + params.v_at + kv_start, turn, at, head % shared_by == 0u);
            at = OWN;
        }
        attend(at);
    }
    store_parts((row * params.heads + head) * splits + split, splits);
}
