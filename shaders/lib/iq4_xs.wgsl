// IQ4_XS weights: blocks of codes; for each eight of them two words. The first has the f16 factor of
// scales, low, and the upper two bits of eight scales, the second their nibbles. A scale is its six bits
// less 32.

fn scale_of(at: u32) -> f32 {
    let record = params.scales + at / 8u * 2u;
    let first = scales[record];
    let low = (scales[record + 1u] >> (at % 8u * 4u)) & 15u;
    let high = (first >> (16u + at % 8u * 2u)) & 3u;
    return unpack2x16float(first).x * f32(i32(low | (high << 4u)) - 32);
}
