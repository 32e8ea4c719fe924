// What the forms of rotary embedding, storing and attention in one share: what rotary_store.wgsl and attention do,
// from a row that holds q, k and v, for steps of one row a sequence.

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

override NEIGHBOURS: bool = false; // pairs are (2i, 2i + 1), not (i, i + rotary_dims / 2)

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> turns: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read_write> keys: array<Quad>;
@group(0) @binding(5) var<storage, read_write> values: array<Quad>;
@group(0) @binding(6) var<storage, read_write> out: array<vec4<f32>>;

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

// Where the angles of a row begin, in pairs.
fn turn_of(row: u32) -> u32 {
    let angles = step[params.angles + step[params.slots + row]] + step[params.positions + row];
    return params.table + angles * (params.rotary_dims / 2u);
}
