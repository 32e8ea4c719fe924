// Attention for heads of any size; an invocation owns four quads of the result of one head of one row.
//
// One pass over the positions with a running maximum m and total (Milakov and Gimelshein 2018): a new
// maximum scales what was summed by exp(m_old − m_new). There is no barrier. The score is computed again
// for each four quads, so heads of more than 16 values have a faster form.

override LANES: u32 = 16u;

@group(0) @binding(2) var<storage, read> q: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

// The values of q from `i` on of the head that begins at `start`; zero past the end of the head.
fn query_quad(start: u32, i: u32) -> vec4<f32> {
    var quad = vec4<f32>(q[start + i], 0.0, 0.0, 0.0);
    if (i + 1u < params.head_dim) { quad.y = q[start + i + 1u]; }
    if (i + 2u < params.head_dim) { quad.z = q[start + i + 2u]; }
    if (i + 3u < params.head_dim) { quad.w = q[start + i + 3u]; }
    return quad;
}

fn store_quad(start: u32, i: u32, quad: vec4<f32>) {
    if (i < params.head_dim) { out[start + i] = quad.x; }
    if (i + 1u < params.head_dim) { out[start + i + 1u] = quad.y; }
    if (i + 2u < params.head_dim) { out[start + i + 2u] = quad.z; }
    if (i + 3u < params.head_dim) { out[start + i + 3u] = quad.w; }
}

fn weighted(sum: vec4<f32>, kept: f32, weight: f32, at: u32, quad: u32) -> vec4<f32> {
    if (quad >= params.quads) {
        return sum;
    }
    return sum * kept + weight * unpack_quad(values[at + quad]);
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let chunks = (params.quads + 3u) / 4u;
    let index = (group.y * groups.x + group.x) * LANES + lane;
    let quad = index % chunks * 4u;
    let head = index / chunks % params.heads;
    let row = index / chunks / params.heads;
    if (row >= step[0]) {
        return;
    }
    let position = step[params.positions + row];
    let slot = step[params.slots + row];
    let start = row * params.stride + head * params.head_dim;
    let kv_start = head / (params.heads / params.kv_heads) * params.quads;
    var top = LOWEST;
    var total = 0.0;
    var a = vec4<f32>();
    var b = vec4<f32>();
    var c = vec4<f32>();
    var d = vec4<f32>();
    for (var j = first_seen(position); j <= position; j += 1u) {
        let at = entry_of(slot, j) * params.kv_heads * params.quads + kv_start;
        var score = 0.0;
        for (var i = 0u; i < params.quads; i += 1u) {
            score += dot(query_quad(start, i * 4u), unpack_quad(keys[at + i]));
        }
        score = capped(score * params.scale);
        let new_top = max(top, score);
        let kept = exp(top - new_top);
        let weight = exp(score - new_top);
        top = new_top;
        total = total * kept + weight;
        a = weighted(a, kept, weight, at, quad);
        b = weighted(b, kept, weight, at, quad + 1u);
        c = weighted(c, kept, weight, at, quad + 2u);
        d = weighted(d, kept, weight, at, quad + 3u);
    }
    store_quad(start, quad * 4u, a / total);
    store_quad(start, quad * 4u + 4u, b / total);
    store_quad(start, quad * 4u + 8u, c / total);
    store_quad(start, quad * 4u + 12u, d / total);
}
