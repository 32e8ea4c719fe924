// Blocks of 32 values of five bits: a vector of nibbles as in lib/nibbles.wgsl, and a word of fifth bits,
// where bit q of byte k is of column 4q + k. value = scale · level + minimum; the fragment of the format
// says where `fifth_bits` and `scale_and_minimum` are. Needs lib/bytes.wgsl.

fn joined(nibbles: u32, bits: u32) -> vec4<f32> {
    return byte_levels((nibbles & 0x0f0f0f0fu) | ((bits & 0x01010101u) << 4u));
}

// The groups of four columns of a block that an octet holds.
fn octet_columns(octet: u32) -> vec2<u32> {
    return vec2<u32>(octet, octet + 4u);
}

fn octet_values(row: u32, block: u32, octet: u32) -> mat2x4<f32> {
    let at = row * params.blocks + block;
    let word = quants[vector_at(row, block, params.blocks)][octet];
    let bits = fifth_bits(at) >> octet;
    let scale = scale_and_minimum(at);
    return mat2x4<f32>(
        joined(word, bits) * (scale.x * BYTE_PLACES) + scale.y,
        joined(word >> 4u, bits >> 4u) * (scale.x * BYTE_PLACES) + scale.y);
}

// The values of a block are these times scale.x plus scale.y (below), where the quads of x that they meet
// are multiplied by `place`.
fn block_quants(row: u32, block: u32) -> array<vec4<f32>, 8> {
    let at = row * params.blocks + block;
    let low = quants[vector_at(row, block, params.blocks)];
    let high = low >> vec4<u32>(4u);
    let bits = fifth_bits(at);
    return array<vec4<f32>, 8>(
        joined(low.x, bits), joined(low.y, bits >> 1u), joined(low.z, bits >> 2u), joined(low.w, bits >> 3u),
        joined(high.x, bits >> 4u), joined(high.y, bits >> 5u), joined(high.z, bits >> 6u), joined(high.w, bits >> 7u));
}

fn block_scale(row: u32, block: u32) -> vec2<f32> {
    return scale_and_minimum(row * params.blocks + block);
}

fn place(quad: u32) -> vec4<f32> {
    return BYTE_PLACES;
}
