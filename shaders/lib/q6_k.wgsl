// Q6_K weights: a vector of quants holds the nibbles of two halves, the first low. For each 256 values a
// record of 21 words: the f16 factor of scales, 16 signed bytes of scale, and for each half a word of its
// upper two bits. value = d · scale · (level − 32).

fn half_quads(row: u32, half: u32) -> vec4<u32> {
    let number = (half - row * params.blocks * 2u) / 2u;
    let words = quants[vector_at(row, number, params.blocks)];
    let low = (words >> vec4<u32>(half % 2u * 4u)) & vec4<u32>(0x0f0f0f0fu);
    let bits = scales[params.scales + half / 16u * 21u + 5u + half % 16u];
    let high = (vec4<u32>(bits) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(0x03030303u);
    return low | (high << vec4<u32>(4u));
}

fn half_scale(half: u32) -> vec2<f32> {
    let scale = signed_scale(params.scales + half / 16u * 21u, half % 16u);
    return vec2<f32>(scale, -32.0 * scale);
}
