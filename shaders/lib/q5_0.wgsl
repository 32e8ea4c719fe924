// Q5_0 weights: blocks of five bits with an f16 scale. Three words for two blocks: the fifth bits of each,
// then both scales, the first low. The value is scale · (level − 16), and scale · level and 16 · scale are
// exact in f32.

fn fifth_bits(at: u32) -> u32 {
    return scales[params.scales + at / 2u * 3u + at % 2u];
}

fn scale_and_minimum(at: u32) -> vec2<f32> {
    let pair = scales[params.scales + at / 2u * 3u + 2u];
    let scale = unpack2x16float(select(pair, pair >> 16u, at % 2u == 1u)).x;
    return vec2<f32>(scale, -16.0 * scale);
}
