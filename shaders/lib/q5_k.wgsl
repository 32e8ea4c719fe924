// Q5_K weights: blocks of five bits with the scales of lib/k_scales.wgsl; the fifth bits of eight blocks
// end their record.

const RECORD: u32 = 13u;

fn fifth_bits(at: u32) -> u32 {
    return scales[params.scales + at / 8u * RECORD + 5u + at % 8u];
}
