// Attention over a part of the positions (lib/attention_shared.wgsl). attention_merge.wgsl joins the parts.

@group(0) @binding(2) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> out: array<vec4<f32>>;

fn query(vector: u32, quad: u32) -> vec4<f32> {
    return q[row_of(vector) * (params.stride / 4u) + head_of(vector) * params.quads + quad];
}

// Quad `quad` of the key, or the value, that begins at quad `at` of the cache.
fn key(at: u32, quad: u32, position: u32) -> Quad {
    return keys[at + quad];
}

fn value(at: u32, quad: u32, position: u32) -> Quad {
    return values[at + quad];
}
