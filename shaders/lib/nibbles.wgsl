// Blocks of 32 values in a vector of four words. Byte i holds value i in its low nibble and value i + 16
// in its high one, so word w is the octet of columns 4w… and 16 + 4w…. value = scale · nibble + minimum;
// the fragment of the format says where `scale_and_minimum` are.
//
// A nibble is masked where it stands and its scale divided by the place's power of two, which is exact
// and saves the shift. Numbers convert through i32, because software adapters convert unsigned ones in
// several instructions; so only the topmost nibble is shifted.

@group(0) @binding(3) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<u32>;

const LOW_PLACES = vec4<f32>(0x1p0, 0x1p-8, 0x1p-16, 0x1p-24);
const HIGH_PLACES = vec4<f32>(0x1p-4, 0x1p-12, 0x1p-20, 0x1p0);

fn low_nibbles(word: u32) -> vec4<f32> {
    return vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(word) & vec4<u32>(0xfu, 0xf00u, 0xf0000u, 0xf000000u)));
}

fn high_nibbles(word: u32) -> vec4<f32> {
    return vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(word & 0xf0u, word & 0xf000u, word & 0xf00000u, word >> 28u)));
}

// The groups of four columns of a block that an octet holds.
fn octet_columns(octet: u32) -> vec2<u32> {
    return vec2<u32>(octet, octet + 4u);
}

fn octet_values(row: u32, block: u32, octet: u32) -> mat2x4<f32> {
    let at = row * params.blocks + block;
    let word = quants[vector_at(row, block, params.blocks)][octet];
    let scale = scale_and_minimum(at);
    return mat2x4<f32>(
        low_nibbles(word) * (scale.x * LOW_PLACES) + scale.y,
        high_nibbles(word) * (scale.x * HIGH_PLACES) + scale.y);
}

// The values of a block are these times scale.x plus scale.y (below), where the quads of x that they meet
// are multiplied by `place`.
fn block_quants(row: u32, block: u32) -> array<vec4<f32>, 8> {
    let words = quants[vector_at(row, block, params.blocks)];
    return array<vec4<f32>, 8>(
        low_nibbles(words.x), low_nibbles(words.y), low_nibbles(words.z), low_nibbles(words.w),
        high_nibbles(words.x), high_nibbles(words.y), high_nibbles(words.z), high_nibbles(words.w));
}

fn block_scale(row: u32, block: u32) -> vec2<f32> {
    return scale_and_minimum(row * params.blocks + block);
}

fn place(quad: u32) -> vec4<f32> {
    return select(HIGH_PLACES, LOW_PLACES, quad < 4u);
}
