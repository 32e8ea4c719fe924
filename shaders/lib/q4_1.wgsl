// Q4_1 weights: blocks of nibbles with a word of f16 scale, low, and f16 minimum, high.

fn scale_and_minimum(at: u32) -> vec2<f32> {
    return unpack2x16float(scales[params.scales + at]);
}
