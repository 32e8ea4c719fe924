// Queries of the rows of q, and sums of nothing, for lib/attention_tiles.wgsl.

@group(0) @binding(2) var<storage, read> q: array<vec4<f32>>;

// A tile of head `h`, which begins at quad `at`.
fn load_tile(at: u32, h: u32, tile: u32) {
    let i = at + tile * 4u;
    queries[h * 8u + tile] = params.scale * mat4x4<f32>(q[i], q[i + 1u], q[i + 2u], q[i + 3u]);
    sums[h * 8u + tile] = mat4x4<f32>();
}

fn load_head(at: u32, h: u32) {
    load_tile(at, h, 0u);
    if (TILES > 1u) { load_tile(at, h, 1u); }
    if (TILES > 2u) { load_tile(at, h, 2u); }
    if (TILES > 3u) { load_tile(at, h, 3u); }
    if (TILES > 4u) { load_tile(at, h, 4u); }
    if (TILES > 5u) { load_tile(at, h, 5u); }
    if (TILES > 6u) { load_tile(at, h, 6u); }
    if (TILES > 7u) { load_tile(at, h, 7u); }
}

// The group's heads, of which the first begins at quad `at`.
fn load_queries(at: u32) {
    load_head(at, 0u);
    if (GROUP > 1u) { load_head(at + params.quads, 1u); }
    if (GROUP > 2u) { load_head(at + 2u * params.quads, 2u); }
    if (GROUP > 3u) { load_head(at + 3u * params.quads, 3u); }
}

fn key_tile(at: u32, tile: u32) -> mat4x4<f32> {
    return cached_key(at, tile);
}

fn value_tile(at: u32, tile: u32) -> mat4x4<f32> {
    return cached_value(at, tile);
}
