// (a, b) → (a·cos − b·sin, b·cos + a·sin) for the pairs of every head of q, in place, and of k, on the
// way to the cache; v goes to the cache as it is.
//
// A row has one invocation for each pair of q, then one for each quad of its cache entry, which stores
// keys and values.

struct Params {
    positions: u32,     // where positions begin in the step
    slots: u32,         // where slots begin in the step
    angles: u32,        // where the first rows of angles begin in the step
    tables: u32,        // where page tables begin in the step
    pages: u32,         // pages of a table
    page_size: u32,     // positions in a page
    heads: u32,         // query heads
    kv_heads: u32,      // heads of an entry
    head_dim: u32,      // values in a head
    quads: u32,         // quads of a head in an entry
    rotary_dims: u32,   // values of a head that are rotated, even; perhaps 0
    table: u32,         // where the table of angles begins in its buffer
    q_stride: u32,      // values from row to row of q
    kv_stride: u32,     // values from row to row of k and v
}

override LANES: u32 = 64u;
override NEIGHBOURS: bool = false; // pairs are (2i, 2i + 1), not (i, i + rotary_dims / 2)

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> q: array<f32>;
@group(0) @binding(3) var<storage, read> k: array<f32>;
@group(0) @binding(4) var<storage, read> v: array<f32>;
@group(0) @binding(5) var<storage, read> angles: array<f32>;
@group(0) @binding(6) var<storage, read_write> keys: array<Quad>;
@group(0) @binding(7) var<storage, read_write> values: array<Quad>;

fn first_of_pair(pair: u32) -> u32 {
    return select(pair, pair * 2u, NEIGHBOURS);
}

fn second_of_pair(pair: u32) -> u32 {
    return select(pair + params.rotary_dims / 2u, pair * 2u + 1u, NEIGHBOURS);
}

fn rotate(angle_row: u32, pair: u32, a: f32, b: f32) -> vec2<f32> {
    let at = params.table + angle_row * params.rotary_dims + pair;
    let cosine = angles[at];
    let sine = angles[at + params.rotary_dims / 2u];
    return vec2<f32>(a * cosine - b * sine, b * cosine + a * sine);
}

// Value `i` of the head that begins at `start` of k, rotated; zero past the end of the head.
fn rotated_key(angle_row: u32, start: u32, i: u32) -> f32 {
    if (i >= params.head_dim) {
        return 0.0;
    }
    if (i >= params.rotary_dims) {
        return k[start + i];
    }
    let half = params.rotary_dims / 2u;
    let pair = select(i % half, i / 2u, NEIGHBOURS);
    let second = select(i >= half, i % 2u == 1u, NEIGHBOURS);
    let turned = rotate(angle_row, pair, k[start + first_of_pair(pair)], k[start + second_of_pair(pair)]);
    return select(turned.x, turned.y, second);
}

fn value_at(start: u32, i: u32) -> f32 {
    if (i >= params.head_dim) {
        return 0.0;
    }
    return v[start + i];
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let pairs = params.heads * (params.rotary_dims / 2u);
    let entry_quads = params.kv_heads * params.quads;
    let index = (group.y * groups.x + group.x) * LANES + lane;
    let row = index / (pairs + entry_quads);
    let item = index % (pairs + entry_quads);
    if (row >= step[0]) {
        return;
    }
    let position = step[params.positions + row];
    let slot = step[params.slots + row];
    let angle_row = step[params.angles + slot] + position;
    if (item < pairs) {
        let pair = item % (params.rotary_dims / 2u);
        let start = row * params.q_stride + item / (params.rotary_dims / 2u) * params.head_dim;
        let at_a = start + first_of_pair(pair);
        let at_b = start + second_of_pair(pair);
        let turned = rotate(angle_row, pair, q[at_a], q[at_b]);
        q[at_a] = turned.x;
        q[at_b] = turned.y;
        return;
    }
    let quad = item - pairs;
    let start = row * params.kv_stride + quad / params.quads * params.head_dim;
    let i = quad % params.quads * 4u;
    let at = entry_of(slot, position) * entry_quads + quad;
    keys[at] = pack_quad(vec4<f32>(
        rotated_key(angle_row, start, i), rotated_key(angle_row, start, i + 1u),
        rotated_key(angle_row, start, i + 2u), rotated_key(angle_row, start, i + 3u)));
    values[at] = pack_quad(vec4<f32>(
        value_at(start, i), value_at(start, i + 1u), value_at(start, i + 2u), value_at(start, i + 3u)));
}
