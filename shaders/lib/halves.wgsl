// Blocks of 32 values whose halves have scales of their own. value = scale · level + minimum; the fragment
// of the format says, by the number of a half in the whole weight, where its levels (`half_quads`: a word of
// four bytes for each four columns) and its scale and minimum (`half_scale`) are. Needs lib/bytes.wgsl.

// The signed byte `number` of a record's 16, which follow its first word, times the f16 of that word.
fn signed_scale(record: u32, number: u32) -> f32 {
    let word = scales[record + 1u + number / 4u] << (24u - number % 4u * 8u);
    return unpack2x16float(scales[record]).x * f32(bitcast<i32>(word) >> 24u);
}

// The groups of four columns of a block that an octet holds.
fn octet_columns(octet: u32) -> vec2<u32> {
    return vec2<u32>(octet * 2u, octet * 2u + 1u);
}

fn octet_values(row: u32, block: u32, octet: u32) -> mat2x4<f32> {
    let half = (row * params.blocks + block) * 2u + octet / 2u;
    let quads = half_quads(row, half);
    let pair = select(quads.xy, quads.zw, octet % 2u == 1u);
    let scale = half_scale(half);
    let places = scale.x * BYTE_PLACES;
    return mat2x4<f32>(byte_levels(pair.x) * places + scale.y, byte_levels(pair.y) * places + scale.y);
}

// The values of a block are these times the scale (below), the quads of x that they meet times `place`.
fn block_quants(row: u32, block: u32) -> array<vec4<f32>, 8> {
    let half = (row * params.blocks + block) * 2u;
    let a = half_quads(row, half);
    let b = half_quads(row, half + 1u);
    let a_scale = half_scale(half);
    let b_scale = half_scale(half + 1u);
    let a_places = a_scale.x * BYTE_PLACES;
    let b_places = b_scale.x * BYTE_PLACES;
    return array<vec4<f32>, 8>(
        byte_levels(a.x) * a_places + a_scale.y, byte_levels(a.y) * a_places + a_scale.y,
        byte_levels(a.z) * a_places + a_scale.y, byte_levels(a.w) * a_places + a_scale.y,
        byte_levels(b.x) * b_places + b_scale.y, byte_levels(b.y) * b_places + b_scale.y,
        byte_levels(b.z) * b_places + b_scale.y, byte_levels(b.w) * b_places + b_scale.y);
}

fn block_scale(row: u32, block: u32) -> vec2<f32> {
    return vec2<f32>(1.0, 0.0);
}

fn place(quad: u32) -> vec4<f32> {
    return vec4<f32>(1.0);
}
