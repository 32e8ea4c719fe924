// F16 weights in octets of 8 values: one vector of four words, two values a word, the first low.
//
// Row r begins at value r·columns after vector `params.quants`. Where columns is no multiple of 8 (not
// ALIGNED), octets straddle vectors, and values past the end of a row read as zero.

const OCTETS: u32 = 1u; // octets in a block

fn value_at(row: u32, column: u32) -> f32 {
    let at = row * params.columns + column;
    let pair = unpack2x16float(quants[params.quants + at / 8u][at / 2u % 4u]);
    return select(0.0, select(pair.x, pair.y, at % 2u == 1u), column < params.columns);
}

fn octet_at(row: u32, block: u32, octet: u32) -> mat2x4<f32> {
    if (ALIGNED) {
        let words = quants[params.quants + row * (params.columns / 8u) + block];
        return mat2x4<f32>(
            vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y)),
            vec4<f32>(unpack2x16float(words.z), unpack2x16float(words.w)));
    }
    return straddling_octet(row, block);
}
