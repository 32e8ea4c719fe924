// Attention of many rows, for heads of 16, 32… 128 values; an invocation owns GROUP query heads of one key-value
// head of one row, and its neighbours those of the next rows.
//
// Rows of one sequence see nearly the same positions. Those that all rows of a subgroup see pass by in fours, so
// that sums are scaled and stored once for four. All rows need the same keys and values: each of eight invocations
// loads an eighth of them, and the subgroup broadcasts it. The few positions that only some rows see, and all of
// them where rows are of several sequences, are loaded one by one (lib/attention_tiles.wgsl). Subgroups are whole
// and have eight invocations or more; four divides page_size.
// Workgroups (x, y) share the heads along x and the rows along y.

override LANES: u32 = 8u;

@group(0) @binding(5) var<storage, read_write> out: array<vec4<f32>>;

// The scores of each head of the group at four positions, then the weights.
var<private> four: array<vec4<f32>, 4>;

// A quad of the keys at four positions meets the queries.
fn add_scores(tile: u32, i: u32, quads: mat4x4<f32>) {
    four[0] += queries[tile][i] * quads;
    if (GROUP > 1u) { four[1] += queries[8u + tile][i] * quads; }
    if (GROUP > 2u) { four[2] += queries[16u + tile][i] * quads; }
    if (GROUP > 3u) { four[3] += queries[24u + tile][i] * quads; }
}

// A quad of the values at four positions is added by its weights.
fn add_weighted(tile: u32, i: u32, quads: mat4x4<f32>, kept: vec4<f32>) {
    sums[tile][i] = sums[tile][i] * kept.x + quads * four[0];
    if (GROUP > 1u) { sums[8u + tile][i] = sums[8u + tile][i] * kept.y + quads * four[1]; }
    if (GROUP > 2u) { sums[16u + tile][i] = sums[16u + tile][i] * kept.z + quads * four[2]; }
    if (GROUP > 3u) { sums[24u + tile][i] = sums[24u + tile][i] * kept.w + quads * four[3]; }
}

// The quads that invocation `lane` of eight has loaded. `lane` is a constant wherever this is called, so compilers
// leave one line.
fn of_lane(own: mat4x4<f32>, lane: u32) -> mat4x4<f32> {
    switch (lane) {
        case 0u: { return mat4x4<f32>(subgroupShuffle(own[0], 0u), subgroupShuffle(own[1], 0u), subgroupShuffle(own[2], 0u), subgroupShuffle(own[3], 0u)); }
        case 1u: { return mat4x4<f32>(subgroupShuffle(own[0], 1u), subgroupShuffle(own[1], 1u), subgroupShuffle(own[2], 1u), subgroupShuffle(own[3], 1u)); }
        case 2u: { return mat4x4<f32>(subgroupShuffle(own[0], 2u), subgroupShuffle(own[1], 2u), subgroupShuffle(own[2], 2u), subgroupShuffle(own[3], 2u)); }
        case 3u: { return mat4x4<f32>(subgroupShuffle(own[0], 3u), subgroupShuffle(own[1], 3u), subgroupShuffle(own[2], 3u), subgroupShuffle(own[3], 3u)); }
        case 4u: { return mat4x4<f32>(subgroupShuffle(own[0], 4u), subgroupShuffle(own[1], 4u), subgroupShuffle(own[2], 4u), subgroupShuffle(own[3], 4u)); }
        case 5u: { return mat4x4<f32>(subgroupShuffle(own[0], 5u), subgroupShuffle(own[1], 5u), subgroupShuffle(own[2], 5u), subgroupShuffle(own[3], 5u)); }
        case 6u: { return mat4x4<f32>(subgroupShuffle(own[0], 6u), subgroupShuffle(own[1], 6u), subgroupShuffle(own[2], 6u), subgroupShuffle(own[3], 6u)); }
        default: { return mat4x4<f32>(subgroupShuffle(own[0], 7u), subgroupShuffle(own[1], 7u), subgroupShuffle(own[2], 7u), subgroupShuffle(own[3], 7u)); }
    }
}

fn score_pair(at: vec4<u32>, tile: u32) {
    let i = at + tile * 4u;
    let own = mat4x4<f32>(
        unpack_quad(keys[i.x]), unpack_quad(keys[i.y]), unpack_quad(keys[i.z]), unpack_quad(keys[i.w]));
    add_scores(tile, 0u, of_lane(own, 0u));
    add_scores(tile, 1u, of_lane(own, 1u));
    add_scores(tile, 2u, of_lane(own, 2u));
    add_scores(tile, 3u, of_lane(own, 3u));
    if (tile + 1u < TILES) {
        add_scores(tile + 1u, 0u, of_lane(own, 4u));
        add_scores(tile + 1u, 1u, of_lane(own, 5u));
        add_scores(tile + 1u, 2u, of_lane(own, 6u));
        add_scores(tile + 1u, 3u, of_lane(own, 7u));
    }
}

fn weigh_pair(at: vec4<u32>, tile: u32, kept: vec4<f32>) {
    let i = at + tile * 4u;
    let own = mat4x4<f32>(
        unpack_quad(values[i.x]), unpack_quad(values[i.y]), unpack_quad(values[i.z]), unpack_quad(values[i.w]));
    add_weighted(tile, 0u, of_lane(own, 0u), kept);
    add_weighted(tile, 1u, of_lane(own, 1u), kept);
    add_weighted(tile, 2u, of_lane(own, 2u), kept);
    add_weighted(tile, 3u, of_lane(own, 3u), kept);
    if (tile + 1u < TILES) {
        add_weighted(tile + 1u, 0u, of_lane(own, 4u), kept);
        add_weighted(tile + 1u, 1u, of_lane(own, 5u), kept);
        add_weighted(tile + 1u, 2u, of_lane(own, 6u), kept);
        add_weighted(tile + 1u, 3u, of_lane(own, 7u), kept);
    }
}

fn highest(scores: vec4<f32>) -> f32 {
    return max(max(scores.x, scores.y), max(scores.z, scores.w));
}

// Head `h` of the group at the four positions: from scores to weights.
fn weigh(h: u32) {
    if (params.cap != 0.0) {
        four[h] = vec4<f32>(capped(four[h].x), capped(four[h].y), capped(four[h].z), capped(four[h].w));
    }
    let new_top = max(top[h], highest(four[h]));
    total[h] *= exp(top[h] - new_top);
    top[h] = new_top;
    four[h] = exp(four[h] - new_top);
    total[h] += dot(four[h], vec4<f32>(1.0));
}

// Adds four positions, whose entries begin at the quads `at`, of which this is an eighth.
fn attend_four(at: vec4<u32>) {
    four = array<vec4<f32>, 4>();
    score_pair(at, 0u);
    if (TILES > 2u) { score_pair(at, 2u); }
    if (TILES > 4u) { score_pair(at, 4u); }
    if (TILES > 6u) { score_pair(at, 6u); }
    let before = top;
    weigh(0u);
    if (GROUP > 1u) { weigh(1u); }
    if (GROUP > 2u) { weigh(2u); }
    if (GROUP > 3u) { weigh(3u); }
    let kept = exp(before - top);
    weigh_pair(at, 0u, kept);
    if (TILES > 2u) { weigh_pair(at, 2u, kept); }
    if (TILES > 4u) { weigh_pair(at, 4u, kept); }
    if (TILES > 6u) { weigh_pair(at, 6u, kept); }
}

// The GROUP heads from `head` on of `row`.
fn attend_row(row: u32, head: u32, invocation: u32) {
    let start = row * (params.stride / 4u) + head * params.quads;
    load_queries(start);
    top = vec4<f32>(LOWEST);
    total = vec4<f32>();
    let position = step[params.positions + row];
    let slot = step[params.slots + row];
    let kv_start = head / (params.heads / params.kv_heads) * params.quads;
    let apart = params.kv_heads * params.quads;
    // Those that all see, from a whole four to a whole four.
    let together = subgroupMin(slot) == subgroupMax(slot);
    let begin = (subgroupMax(first_seen(position)) + 3u) / 4u * 4u;
    let end = (subgroupMin(position) + 1u) / 4u * 4u;
    let all = together && begin < end;
    if (all) {
        var to = begin;
        for (var j = begin; j < end; j = to) {
            to = min((j / params.page_size + 1u) * params.page_size, end);
            var at = entry_of(slot, j) * apart + kv_start + invocation % 8u;
            for (var k = j; k < to; k += 4u) {
                attend_four(vec4<u32>(at, at + apart, at + 2u * apart, at + 3u * apart));
                at += 4u * apart;
            }
        }
    }
    for (var j = first_seen(position); j <= position; j += 1u) {
        if (all && j == begin) {
            j = end;
            if (j > position) {
                break;
            }
        }
        attend(entry_of(slot, j) * apart + kv_start);
    }
    store_head(start, 0u, 1.0 / total[0]);
    if (GROUP > 1u) { store_head(start + params.quads, 1u, 1.0 / total[1]); }
    if (GROUP > 2u) { store_head(start + 2u * params.quads, 2u, 1.0 / total[2]); }
    if (GROUP > 3u) { store_head(start + 3u * params.quads, 3u, 1.0 / total[3]); }
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_invocation_id) invocation: u32,
) {
    let rows = step[0];
    for (var first = group.y * LANES; first < rows; first += groups.y * LANES) {
        for (var head = group.x * GROUP; head < params.heads; head += groups.x * GROUP) {
            // Rows past the end repeat the last one: they compute and store the same.
            attend_row(min(first + lane, rows - 1u), head, invocation);
        }
    }
}
