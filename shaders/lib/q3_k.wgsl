// Q3_K weights: a word of quants holds the lower two bits of a half. For each 256 values a record of 13
// words: the f16 factor of scales, 16 signed bytes of scale, and a word of third bits for each two halves,
// where bit q of byte k is of column 4q + k. value = d · scale · (level − 4).

fn half_quads(row: u32, half: u32) -> vec4<u32> {
    let number = (half - row * params.blocks * 2u) / 4u;
    let word = quants[vector_at(row, number, params.blocks / 2u)][half % 4u];
    let low = (vec4<u32>(word) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(0x03030303u);
    let bits = scales[params.scales + half / 16u * 13u + 5u + half % 16u / 2u] >> (half % 2u * 4u);
    let high = (vec4<u32>(bits) >> vec4<u32>(0u, 1u, 2u, 3u)) & vec4<u32>(0x01010101u);
    return low | (high << vec4<u32>(2u));
}

fn half_scale(half: u32) -> vec2<f32> {
    let scale = signed_scale(params.scales + half / 16u * 13u, half % 16u);
    return vec2<f32>(scale, -4.0 * scale);
}
