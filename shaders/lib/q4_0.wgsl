// Q4_0 weights: blocks of nibbles with an f16 scale, two scales a word, the first low. The value is
// scale · (nibble − 8), and scale · nibble and 8 · scale are exact in f32.

const OFFSET: f32 = -8.0;

fn scale_and_minimum(at: u32) -> vec2<f32> {
    let pair = scales[params.scales + at / 2u];
    let scale = unpack2x16float(select(pair, pair >> 16u, at % 2u == 1u)).x;
    return vec2<f32>(scale, OFFSET * scale);
}
