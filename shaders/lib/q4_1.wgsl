// Q4_1 weights: blocks of nibbles with a word of f16 scale, low, and f16 minimum, high.
// value = scale · nibble + minimum.

fn block_scale(row: u32, block: u32) -> vec2<f32> {
    return unpack2x16float(scales[params.scales + row * params.blocks + block]);
}

fn octet_values(row: u32, block: u32, octet: u32, scale: vec2<f32>) -> mat2x4<f32> {
    let nibbles = octet_nibbles(row, block, octet);
    return mat2x4<f32>(scale.x * nibbles[0] + scale.y, scale.x * nibbles[1] + scale.y);
}
