// MXFP4 weights: blocks of codes with a scale that is a power of two, as bf16, two scales a word, the first
// low. The codes are twice the numbers of four bits: 0, 1, 2, 3, 4, 6, 8 and 12, then their opposites.

fn codes() -> vec4<u32> {
    return vec4<u32>(0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu);
}

fn scale_of(at: u32) -> f32 {
    let pair = scales[params.scales + at / 2u];
    return bitcast<f32>(select(pair << 16u, pair & 0xffff0000u, at % 2u == 1u));
}
