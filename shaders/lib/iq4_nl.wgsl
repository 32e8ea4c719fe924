// IQ4_NL weights: blocks of codes with an f16 scale, two scales a word, the first low.

const OFFSET: f32 = 0.0;

fn scale_of(at: u32) -> f32 {
    let pair = scales[params.scales + at / 2u];
    return unpack2x16float(select(pair, pair >> 16u, at % 2u == 1u)).x;
}
