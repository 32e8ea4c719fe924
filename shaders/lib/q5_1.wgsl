// Q5_1 weights: blocks of five bits with two words, the fifth bits and f16 scale, low, and f16 minimum,
// high.

fn fifth_bits(at: u32) -> u32 {
    return scales[params.scales + at * 2u];
}

fn scale_and_minimum(at: u32) -> vec2<f32> {
    return unpack2x16float(scales[params.scales + at * 2u + 1u]);
}
