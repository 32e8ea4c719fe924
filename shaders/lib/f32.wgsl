// F32 weights: an octet is two vectors.

fn value_at(row: u32, column: u32) -> f32 {
    let at = row * params.columns + column;
    let word = quants[params.quants + at / 4u][at % 4u];
    return select(0.0, bitcast<f32>(word), column < params.columns);
}

fn vectors_of_octet(row: u32, octet: u32) -> mat2x4<f32> {
    let at = params.quants + row * (params.columns / 4u) + octet * 2u;
    return mat2x4<f32>(bitcast<vec4<f32>>(quants[at]), bitcast<vec4<f32>>(quants[at + 1u]));
}
