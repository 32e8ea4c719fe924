// Attention of QUERIES query vectors of one key-value head by a workgroup, for heads of 16, 32… 128 values on a
// real GPU. The vectors are those of neighbouring heads, then of neighbouring rows.
//
// A chunk of positions at a time, keys are put into workgroup memory, in whole lines of the cache, and an
// invocation multiplies one of them by half of the queries; then values are, and an invocation adds them for two
// or four quads of one query. One pass with a running maximum (Milakov and Gimelshein 2018). What an invocation
// keeps is few registers, whatever the size of a head. Parts of the result are as in lib/attention_tiles.wgsl.
// Needs the kernel's own `query`, `key` and `value`.

const QUERIES: u32 = 8u;
const LANES: u32 = 64u;
const CHUNK: u32 = 32u;           // positions
const STAGE: u32 = 16u;           // quads of a head that are in the tile at a time
const PARTS: u32 = LANES / QUERIES; // invocations of a query
const WIDE: u32 = CHUNK + 1u;     // from query to query of what follows, so that no bank is met twice

var<workgroup> queries: array<vec4<f32>, QUERIES * 32>;
// A stage of keys or values, quad by quad; where in a quad's positions one lies is turned by the quad's number, so
// that neither neighbouring quads nor neighbouring positions meet in a bank.
var<workgroup> tile: array<Quad, CHUNK * STAGE>;
var<workgroup> entries: array<u32, CHUNK>;          // where the keys and values of a chunk begin
var<workgroup> scores: array<f32, QUERIES * WIDE>;
var<workgroup> weights: array<f32, QUERIES * WIDE>; // −1 for what a row does not see
// The slot of each vector's row, and the positions from y on below z that it sees.
var<workgroup> ranges: array<vec4<u32>, QUERIES>;
// The vectors whose sequence is gone over together: its slot, the positions from y on below z, and the first
// vector after them. None where y = z.
var<workgroup> run: vec4<u32>;

// Quads `part`, part + 8, part + 16 and part + 24 of a query's sum; its total weight and its maximum.
var<private> sums: array<vec4<f32>, 4>;
var<private> total: f32;
var<private> top: f32 = LOWEST;
// What the first of them is, and how many there are.
var<private> first_vector: u32;
var<private> vectors: u32;
var<private> kv_head: u32;

fn place_of(quad: u32, position: u32) -> u32 {
    return quad * CHUNK + (position ^ quad);
}

fn shared_by() -> u32 {
    return params.heads / params.kv_heads;
}

fn row_of(vector: u32) -> u32 {
    return (first_vector + vector) / shared_by();
}

fn head_of(vector: u32) -> u32 {
    return kv_head * shared_by() + (first_vector + vector) % shared_by();
}

// The vectors from `begin` on that are of one sequence.
fn next_run(begin: u32) -> vec4<u32> {
    var found = vec4<u32>(0u, 0u, 0u, QUERIES);
    for (var vector = begin; vector < vectors; vector += 1u) {
        let range = ranges[vector];
        if (vector == begin) {
            found = range;
        } else if (range.x != found.x) {
            break;
        }
        found = vec4<u32>(range.x, min(found.y, range.y), max(found.z, range.z), vector + 1u);
    }
    return found;
}

// Adds the products of the weights with quads `part` and part + 8 of the values in the tile to two sums.
fn weigh(number: u32, vector: u32, part: u32) {
    for (var j = 0u; j < CHUNK; j += 1u) {
        let weight = weights[vector * WIDE + j];
        // Not times zero: what a row does not see may be no number.
        if (weight == -1.0) {
            continue;
        }
        sums[number] += weight * unpack_quad(tile[place_of(part, j)]);
        sums[number + 1u] += weight * unpack_quad(tile[place_of(part + PARTS, j)]);
        total += select(0.0, weight, number == 0u);
    }
}

// Goes over every splits-th chunk of the positions of `now`, the vectors from `begin` on.
fn attend(now: vec4<u32>, begin: u32, split: u32, splits: u32, lane: u32) {
    let position = lane % CHUNK;
    let first = lane / CHUNK * (QUERIES / 2u);
    let own = lane / PARTS;
    let part = lane % PARTS;
    for (var chunk = now.y + split * CHUNK; chunk < now.z; chunk += splits * CHUNK) {
        let last = now.z - 1u;
        if (lane < CHUNK) {
            let entry = entry_of(now.x, min(chunk + lane, last));
            entries[lane] = (entry * params.kv_heads + kv_head) * params.quads;
        }
        var products = vec4<f32>();
        for (var stage = 0u; stage < params.quads; stage += STAGE) {
            let quads = min(STAGE, params.quads - stage);
            workgroupBarrier();
            for (var i = lane; i < CHUNK * STAGE; i += LANES) {
                let quad = i % STAGE;
                if (quad < quads) {
                    let j = i / STAGE;
                    tile[place_of(quad, j)] = key(entries[j], stage + quad, chunk + j);
                }
            }
            workgroupBarrier();
            for (var quad = 0u; quad < quads; quad += 1u) {
                let k = unpack_quad(tile[place_of(quad, position)]);
                let at = first * 32u + stage + quad;
                products += vec4<f32>(
                    dot(k, queries[at]), dot(k, queries[at + 32u]),
                    dot(k, queries[at + 64u]), dot(k, queries[at + 96u]));
            }
        }
        for (var i = 0u; i < 4u; i += 1u) {
            let range = ranges[first + i];
            let sees = first + i >= begin && first + i < now.w
                && chunk + position >= range.y && chunk + position < range.z;
            scores[(first + i) * WIDE + position] = select(LOWEST, capped(products[i]), sees);
        }
        workgroupBarrier();
        var new_top = top;
        for (var j = 0u; j < CHUNK; j += 1u) {
            new_top = max(new_top, scores[own * WIDE + j]);
        }
        for (var j = part; j < CHUNK; j += PARTS) {
            let score = scores[own * WIDE + j];
            weights[own * WIDE + j] = select(exp(score - new_top), -1.0, score == LOWEST);
        }
        let kept = exp(top - new_top);
        top = new_top;
        total *= kept;
        sums[0] *= kept;
        sums[1] *= kept;
        sums[2] *= kept;
        sums[3] *= kept;
        for (var stage = 0u; stage < params.quads; stage += STAGE) {
            workgroupBarrier();
            for (var i = lane; i < CHUNK * STAGE; i += LANES) {
                let quad = i % STAGE;
                if (stage + quad < params.quads) {
                    let j = i / STAGE;
                    tile[place_of(quad, j)] = value(entries[j], stage + quad, chunk + j);
                }
            }
            workgroupBarrier();
            if (stage == 0u) {
                weigh(0u, own, part);
            } else {
                weigh(2u, own, part);
            }
        }
    }
}

fn store_quad(at: u32, quad: u32, sum: vec4<f32>) {
    if (quad < params.quads) {
        out[at + quad] = sum;
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
    let all = rows * shared_by();
    let sets = (all + QUERIES - 1u) / QUERIES;
    let index = group.y * groups.x + group.x;
    let split = index % splits;
    first_vector = index / splits % sets * QUERIES;
    kv_head = index / splits / sets;
    // None where there are more workgroups than needed.
    vectors = select(0u, min(all - first_vector, QUERIES), kv_head < params.kv_heads);
    for (var i = lane; i < vectors * params.quads; i += LANES) {
        let vector = i / params.quads;
        queries[vector * 32u + i % params.quads] = params.scale * query(vector, i % params.quads);
    }
    if (lane < QUERIES) {
        let position = step[params.positions + row_of(lane)];
        ranges[lane] = vec4<u32>(step[params.slots + row_of(lane)], first_seen(position), position + 1u, 0u);
    }
    workgroupBarrier();
    var begin = 0u;
    while (begin < QUERIES) {
        if (lane == 0u) {
            run = next_run(begin);
        }
        // The same for all invocations, which browsers must see where there are barriers.
        let now = workgroupUniformLoad(&run);
        attend(now, begin, split, splits, lane);
        begin = now.w;
    }
    let own = lane / PARTS;
    let part = lane % PARTS;
    if (own < vectors) {
        let at = ((row_of(own) * params.heads + head_of(own)) * splits + split) * (params.quads + 1u);
        store_quad(at, part, sums[0]);
        store_quad(at, part + PARTS, sums[1]);
        store_quad(at, part + 2u * PARTS, sums[2]);
        store_quad(at, part + 3u * PARTS, sums[3]);
        if (part == 0u) {
            out[at + params.quads] = vec4<f32>(total, top, 0.0, 0.0);
        }
    }
}
