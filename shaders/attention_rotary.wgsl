// Rotary embedding, storing and attention in one, for steps of one row a sequence: what rotary_store.wgsl
// and attention_split.wgsl do, from a row that holds q, k and v.
//
// An invocation owns GROUP query heads of one key-value head of one row, and every splits-th position. It
// rotates its queries on loading them. The row's own position is in no cache yet: the invocation that owns
// it takes key and value from the row and, for the first heads of a key-value head, stores them. There is
// no barrier. attention_merge.wgsl joins the parts.

struct Params {
    positions: u32,     // where positions begin in the step
    slots: u32,         // where slots begin in the step
    angles: u32,        // where the first rows of angles begin in the step
    tables: u32,        // where page tables begin in the step
    pages: u32,         // pages of a table
    page_size: u32,     // positions in a page
    heads: u32,         // query heads
    kv_heads: u32,      // heads of an entry; a divisor of heads
    quads: u32,         // quads of a head
    rotary_dims: u32,   // values of a head that are rotated, a multiple of 8; perhaps 0
    table: u32,         // where the table of angles begins in its buffer, in pairs
    stride: u32,        // quads from row to row of qkv
    k_at: u32,          // where k begins in a row, in quads
    v_at: u32,          // where v begins in a row, in quads
    splits: u32,        // parts of the positions for one row; more rows share them
    window: u32,        // positions that a row sees, its own among them
    scale: f32,         // what scores are multiplied by
    cap: f32,           // what they stay below in magnitude then, or 0 for no cap
}

override LANES: u32 = 8u;
override NEIGHBOURS: bool = false; // pairs are (2i, 2i + 1), not (i, i + rotary_dims / 2)

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> turns: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read_write> keys: array<Quad>;
@group(0) @binding(5) var<storage, read_write> values: array<Quad>;
@group(0) @binding(6) var<storage, read_write> out: array<vec4<f32>>;

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

// Quad `i` of the head that begins at quad `start`, rotated by the angles that begin at pair `turn`.
fn rotated(start: u32, i: u32, turn: u32) -> vec4<f32> {
    let own = qkv[start + i];
    if (i * 4u >= params.rotary_dims) {
        return own;
    }
    let sines = params.rotary_dims / 4u;
    if (NEIGHBOURS) {
        let c = turns[turn + i];
        let s = turns[turn + sines + i];
        return own * c.xxyy + vec4<f32>(-own.y, own.x, -own.w, own.z) * s.xxyy;
    }
    let half = params.rotary_dims / 8u;
    let at = turn + i % half * 2u;
    let c = vec4<f32>(turns[at], turns[at + 1u]);
    let s = vec4<f32>(turns[at + sines], turns[at + sines + 1u]);
    let first = i < half;
    let partner = qkv[start + select(i - half, i + half, first)];
    return own * c + select(partner, -partner, first) * s;
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
    let turn = params.table + (step[params.angles + slot] + position) * (params.rotary_dims / 2u);
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
