// Q2_K weights: a word of quants holds a half. For each 256 values a record of five words: f16 factors of
// scales, low, and of minima, high; then a byte for each of 16 halves, scale low and minimum high.

fn half_quads(row: u32, half: u32) -> vec4<u32> {
    let number = (half - row * params.blocks * 2u) / 4u;
    let word = quants[vector_at(row, number, params.blocks / 2u)][half % 4u];
    return (vec4<u32>(word) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(0x03030303u);
}

fn half_scale(half: u32) -> vec2<f32> {
    let record = params.scales + half / 16u * 5u;
    let factors = unpack2x16float(scales[record]);
    let byte = scales[record + 1u + half % 16u / 4u] >> (half % 4u * 8u);
    let pair = vec2<i32>(vec2<u32>(byte, byte >> 4u) & vec2<u32>(0xfu));
    return vec2<f32>(factors.x, -factors.y) * vec2<f32>(pair);
}
