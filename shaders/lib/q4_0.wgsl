// Q4_0 weights: blocks of nibbles with an f16 scale, two scales a word, the first low.
// value = scale · (nibble − 8).

fn block_scale(row: u32, block: u32) -> vec2<f32> {
    let at = row * params.blocks + block;
    let pair = unpack2x16float(scales[params.scales + at / 2u]);
    return vec2<f32>(select(pair.x, pair.y, at % 2u == 1u), 0.0);
}

fn octet_values(row: u32, block: u32, octet: u32, scale: vec2<f32>) -> mat2x4<f32> {
    let nibbles = octet_nibbles(row, block, octet);
    return mat2x4<f32>(scale.x * (nibbles[0] - 8.0), scale.x * (nibbles[1] - 8.0));
}
