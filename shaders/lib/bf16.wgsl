// BF16 weights in octets of 8 values: one vector of four words, two values a word, the first low.
// A value is the upper half of an f32.
//
// Row r begins at value r·columns after vector `params.quants`. Where columns is no multiple of 8 (not
// ALIGNED), octets straddle vectors, and values past the end of a row read as zero.

const OCTETS: u32 = 1u; // octets in a block

fn value_at(row: u32, column: u32) -> f32 {
    let at = row * params.columns + column;
    let word = quants[params.quants + at / 8u][at / 2u % 4u];
    let bits = select(word << 16u, word & 0xffff0000u, at % 2u == 1u);
    return select(0.0, bitcast<f32>(bits), column < params.columns);
}

fn octet_at(row: u32, block: u32, octet: u32) -> mat2x4<f32> {
    if (ALIGNED) {
        let words = quants[params.quants + row * (params.columns / 8u) + block];
        let low = bitcast<vec4<f32>>(words << vec4<u32>(16u));
        let high = bitcast<vec4<f32>>(words & vec4<u32>(0xffff0000u));
        return mat2x4<f32>(low.x, high.x, low.y, high.y, low.z, high.z, low.w, high.w);
    }
    return straddling_octet(row, block);
}
