// Q8_0 weights in blocks of 32 values: eight words of signed bytes, the first lowest, and an f16 scale;
// two scales a word, the first low. value = scale · byte. An octet is two words.

const OCTETS: u32 = 4u; // octets in a block

@group(0) @binding(3) var<storage, read> quants: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<u32>;

fn block_scale(row: u32, block: u32) -> vec2<f32> {
    let at = row * params.blocks + block;
    let pair = unpack2x16float(scales[params.scales + at / 2u]);
    return vec2<f32>(select(pair.x, pair.y, at % 2u == 1u), 0.0);
}

// The groups of four columns of a block that an octet holds.
fn octet_columns(octet: u32) -> vec2<u32> {
    return vec2<u32>(octet * 2u, octet * 2u + 1u);
}

fn signed_bytes(word: u32) -> vec4<f32> {
    return vec4<f32>(vec4<i32>(vec4<u32>(word << 24u, word << 16u, word << 8u, word)) >> vec4<u32>(24u));
}

fn octet_values(row: u32, block: u32, octet: u32, scale: vec2<f32>) -> mat2x4<f32> {
    let words = quants[params.quants + (row * params.blocks + block) * OCTETS + octet];
    return mat2x4<f32>(scale.x * signed_bytes(words.x), scale.x * signed_bytes(words.y));
}
