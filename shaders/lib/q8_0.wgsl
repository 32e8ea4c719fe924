// Q8_0 weights in blocks of 32 values: two vectors of signed bytes, the first lowest, and an f16 scale;
// two scales a word, the first low. value = scale · byte.

@group(0) @binding(3) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<u32>;

const OFFSET: f32 = 0.0;

fn scale_of(at: u32) -> f32 {
    let pair = scales[params.scales + at / 2u];
    return unpack2x16float(select(pair, pair >> 16u, at % 2u == 1u)).x;
}

// Four signed bytes, each times 2²⁴: moved to the top of a word, which sets the sign, and exact in f32.
fn high_bytes(word: u32) -> vec4<f32> {
    let bytes = vec4<u32>(word << 24u, word << 16u, word << 8u, word) & vec4<u32>(0xff000000u);
    return vec4<f32>(bitcast<vec4<i32>>(bytes));
}

const PLACE: f32 = 0x1p-24;

// The groups of four columns of a block that an octet holds.
fn octet_columns(octet: u32) -> vec2<u32> {
    return vec2<u32>(octet * 2u, octet * 2u + 1u);
}

fn octet_values(row: u32, block: u32, octet: u32) -> mat2x4<f32> {
    let at = row * params.blocks + block;
    let words = quants[vector_at(row, block * 2u + octet / 2u, params.blocks * 2u)];
    let pair = select(words.xy, words.zw, octet % 2u == 1u);
    return (scale_of(at) * PLACE) * mat2x4<f32>(high_bytes(pair.x), high_bytes(pair.y));
}

// The values of a block are these times the scale (below), the quads of x that they meet times `place`.
fn block_quants(row: u32, block: u32) -> array<vec4<f32>, 8> {
    let first = quants[vector_at(row, block * 2u, params.blocks * 2u)];
    let second = quants[vector_at(row, block * 2u + 1u, params.blocks * 2u)];
    return array<vec4<f32>, 8>(
        high_bytes(first.x), high_bytes(first.y), high_bytes(first.z), high_bytes(first.w),
        high_bytes(second.x), high_bytes(second.y), high_bytes(second.z), high_bytes(second.w));
}

fn block_scale(row: u32, block: u32) -> vec2<f32> {
    return vec2<f32>(scale_of(row * params.blocks + block), 0.0);
}

fn place(quad: u32) -> vec4<f32> {
    return vec4<f32>(PLACE);
}
