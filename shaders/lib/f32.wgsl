// F32 weights: an octet is two vectors.

fn value_at(row: u32, column: u32) -> f32 {
    let at = row * params.columns + column;
    let word = quants[params.quants + at / 4u][at % 4u];
    return select(0.0, bitcast<f32>(word), column < params.columns);
}

fn vectors_of_octet(at: u32) -> mat2x4<f32> {
    return mat2x4<f32>(
        bitcast<vec4<f32>>(quants[params.quants + at * 2u]),
        bitcast<vec4<f32>>(quants[params.quants + at * 2u + 1u]));
}
