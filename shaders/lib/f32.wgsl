// F32 weights in octets of 8 values: two vectors of four words.
//
// Row r begins at value r·columns after vector `params.quants`. Where columns is no multiple of 8 (not
// ALIGNED), octets straddle vectors, and values past the end of a row read as zero.

const OCTETS: u32 = 1u; // octets in a block

fn value_at(row: u32, column: u32) -> f32 {
    let at = row * params.columns + column;
    let word = quants[params.quants + at / 4u][at % 4u];
    return select(0.0, bitcast<f32>(word), column < params.columns);
}

fn octet_at(row: u32, block: u32, octet: u32) -> mat2x4<f32> {
    if (ALIGNED) {
        let at = params.quants + row * (params.columns / 4u) + block * 2u;
        return mat2x4<f32>(bitcast<vec4<f32>>(quants[at]), bitcast<vec4<f32>>(quants[at + 1u]));
    }
    return straddling_octet(row, block);
}
