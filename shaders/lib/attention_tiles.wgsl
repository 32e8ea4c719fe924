// Attention of GROUP query heads that share a key-value head, in tiles of four quads, position by position.
// Needs the kernel's own `key_tile`, `value_tile` and `out`. Queries and sums are in private arrays at constant
// indices, which software adapters keep in registers.
//
// A part of the result, for attention_merge.wgsl, is the sum of weighted values of one head, then a quad of
// its total weight and its maximum.

override GROUP: u32 = 1u; // query heads of an invocation, up to 4; divides heads / kv_heads
override TILES: u32 = 8u; // tiles of four quads in a head

var<private> queries: array<mat4x4<f32>, 32>; // a tile of head h at 8·h + tile
var<private> sums: array<mat4x4<f32>, 32>;
var<private> top = vec4<f32>(LOWEST);
var<private> total: vec4<f32>;

// A tile of the key, or the value, that begins at quad `at` of the cache.
fn cached_key(at: u32, tile: u32) -> mat4x4<f32> {
    let i = at + tile * 4u;
    return mat4x4<f32>(
        unpack_quad(keys[i]), unpack_quad(keys[i + 1u]), unpack_quad(keys[i + 2u]), unpack_quad(keys[i + 3u]));
}

fn cached_value(at: u32, tile: u32) -> mat4x4<f32> {
    let i = at + tile * 4u;
    return mat4x4<f32>(
        unpack_quad(values[i]), unpack_quad(values[i + 1u]), unpack_quad(values[i + 2u]), unpack_quad(values[i + 3u]));
}

fn tile_dot(a: mat4x4<f32>, b: mat4x4<f32>) -> f32 {
    return dot(a[0], b[0]) + dot(a[1], b[1]) + dot(a[2], b[2]) + dot(a[3], b[3]);
}

fn tile_scores(at: u32, tile: u32) -> vec4<f32> {
    let k = key_tile(at, tile);
    var scores = vec4<f32>(tile_dot(queries[tile], k), 0.0, 0.0, 0.0);
    if (GROUP > 1u) { scores.y = tile_dot(queries[8u + tile], k); }
    if (GROUP > 2u) { scores.z = tile_dot(queries[16u + tile], k); }
    if (GROUP > 3u) { scores.w = tile_dot(queries[24u + tile], k); }
    return scores;
}

// The scores of the group's heads at the key that begins at quad `at`.
fn scores_of(at: u32) -> vec4<f32> {
    var scores = tile_scores(at, 0u);
    if (TILES > 1u) { scores += tile_scores(at, 1u); }
    if (TILES > 2u) { scores += tile_scores(at, 2u); }
    if (TILES > 3u) { scores += tile_scores(at, 3u); }
    if (TILES > 4u) { scores += tile_scores(at, 4u); }
    if (TILES > 5u) { scores += tile_scores(at, 5u); }
    if (TILES > 6u) { scores += tile_scores(at, 6u); }
    if (TILES > 7u) { scores += tile_scores(at, 7u); }
    return scores;
}

fn scale_tile(tile: u32, kept: vec4<f32>) {
    sums[tile] *= kept.x;
    if (GROUP > 1u) { sums[8u + tile] *= kept.y; }
    if (GROUP > 2u) { sums[16u + tile] *= kept.z; }
    if (GROUP > 3u) { sums[24u + tile] *= kept.w; }
}

fn scale_sums(kept: vec4<f32>) {
    scale_tile(0u, kept);
    if (TILES > 1u) { scale_tile(1u, kept); }
    if (TILES > 2u) { scale_tile(2u, kept); }
    if (TILES > 3u) { scale_tile(3u, kept); }
    if (TILES > 4u) { scale_tile(4u, kept); }
    if (TILES > 5u) { scale_tile(5u, kept); }
    if (TILES > 6u) { scale_tile(6u, kept); }
    if (TILES > 7u) { scale_tile(7u, kept); }
}

fn add_tile(at: u32, tile: u32, weight: vec4<f32>) {
    let v = value_tile(at, tile);
    sums[tile] += weight.x * v;
    if (GROUP > 1u) { sums[8u + tile] += weight.y * v; }
    if (GROUP > 2u) { sums[16u + tile] += weight.z * v; }
    if (GROUP > 3u) { sums[24u + tile] += weight.w * v; }
}

fn add_values(at: u32, weight: vec4<f32>) {
    add_tile(at, 0u, weight);
    if (TILES > 1u) { add_tile(at, 1u, weight); }
    if (TILES > 2u) { add_tile(at, 2u, weight); }
    if (TILES > 3u) { add_tile(at, 3u, weight); }
    if (TILES > 4u) { add_tile(at, 4u, weight); }
    if (TILES > 5u) { add_tile(at, 5u, weight); }
    if (TILES > 6u) { add_tile(at, 6u, weight); }
    if (TILES > 7u) { add_tile(at, 7u, weight); }
}

// Adds the position whose entry begins at quad `at`.
fn attend(at: u32) {
    var scores = scores_of(at);
    if (params.cap != 0.0) {
        scores = vec4<f32>(capped(scores.x), capped(scores.y), capped(scores.z), capped(scores.w));
    }
    if (any(scores > top)) {
        let new_top = max(top, scores);
        let kept = exp(top - new_top);
        scale_sums(kept);
        total *= kept;
        top = new_top;
    }
    let weight = exp(scores - top);
    total += weight;
    add_values(at, weight);
}

// Stores a tile of head `h`'s sums times `scale` where the head begins at quad `at`.
fn store_tile(at: u32, h: u32, tile: u32, scale: f32) {
    let sum = sums[h * 8u + tile] * scale;
    out[at + tile * 4u] = sum[0];
    out[at + tile * 4u + 1u] = sum[1];
    out[at + tile * 4u + 2u] = sum[2];
    out[at + tile * 4u + 3u] = sum[3];
}

// The same of all tiles. No loop: compilers unroll short ones only, and then arrays would be in memory.
fn store_head(at: u32, h: u32, scale: f32) {
    store_tile(at, h, 0u, scale);
    if (TILES > 1u) { store_tile(at, h, 1u, scale); }
    if (TILES > 2u) { store_tile(at, h, 2u, scale); }
    if (TILES > 3u) { store_tile(at, h, 3u, scale); }
    if (TILES > 4u) { store_tile(at, h, 4u, scale); }
    if (TILES > 5u) { store_tile(at, h, 5u, scale); }
    if (TILES > 6u) { store_tile(at, h, 6u, scale); }
    if (TILES > 7u) { store_tile(at, h, 7u, scale); }
}

fn store_part(number: u32, h: u32) {
    let part = number * (params.quads + 1u);
    store_head(part, h, 1.0);
    out[part + params.quads] = vec4<f32>(total[h], top[h], 0.0, 0.0);
}

// Stores the parts of all heads of the group: number `first`, then every `splits`-th.
fn store_parts(first: u32, splits: u32) {
    store_part(first, 0u);
    if (GROUP > 1u) { store_part(first + splits, 1u); }
    if (GROUP > 2u) { store_part(first + 2u * splits, 2u); }
    if (GROUP > 3u) { store_part(first + 3u * splits, 3u); }
}
