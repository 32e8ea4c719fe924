// Blocks of 32 values in a vector of four words, their nibbles as in lib/nibbles.wgsl. A nibble is the
// number of a signed byte of `codes`, the first lowest; value = scale · byte. The fragment of the format says
// what `codes` are and where `scale_of` is.
//
// The table is four numbers in registers: indexing an array by a number that is not constant goes through
// memory on every adapter. It is a function because naga 30 makes no pipeline of a module with a constant of
// this type and an array sized by an override ("depends on a type which has not been processed yet").

@group(0) @binding(3) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<u32>;

const PLACE: f32 = 0x1p-24;

// The bytes for the nibbles at the low ends of these words, each times 2²⁴: moved to the top of a word,
// which sets the sign, and exact in f32.
fn high_codes(words: vec4<u32>) -> vec4<f32> {
    let table = codes();
    let second = (words & vec4<u32>(4u)) != vec4<u32>();
    let low = select(vec4<u32>(table.x), vec4<u32>(table.y), second);
    let high = select(vec4<u32>(table.z), vec4<u32>(table.w), second);
    let four = select(low, high, (words & vec4<u32>(8u)) != vec4<u32>());
    let bytes = (four << ((~words & vec4<u32>(3u)) << vec4<u32>(3u))) & vec4<u32>(0xff000000u);
    return vec4<f32>(bitcast<vec4<i32>>(bytes));
}

fn low_codes(word: u32) -> vec4<f32> {
    return high_codes(vec4<u32>(word) >> vec4<u32>(0u, 8u, 16u, 24u));
}

// The groups of four columns of a block that an octet holds.
fn octet_columns(octet: u32) -> vec2<u32> {
    return vec2<u32>(octet, octet + 4u);
}

fn octet_values(row: u32, block: u32, octet: u32) -> mat2x4<f32> {
    let at = row * params.blocks + block;
    let word = quants[vector_at(row, block, params.blocks)][octet];
    return (scale_of(at) * PLACE) * mat2x4<f32>(low_codes(word), low_codes(word >> 4u));
}

// The values of a block are these times the scale (below), the quads of x that they meet times `place`.
fn block_quants(row: u32, block: u32) -> array<vec4<f32>, 8> {
    let low = quants[vector_at(row, block, params.blocks)];
    let high = low >> vec4<u32>(4u);
    return array<vec4<f32>, 8>(
        low_codes(low.x), low_codes(low.y), low_codes(low.z), low_codes(low.w),
        low_codes(high.x), low_codes(high.y), low_codes(high.z), low_codes(high.w));
}

fn block_scale(row: u32, block: u32) -> vec2<f32> {
    return vec2<f32>(scale_of(row * params.blocks + block), 0.0);
}

fn place(quad: u32) -> vec4<f32> {
    return vec4<f32>(PLACE);
}
