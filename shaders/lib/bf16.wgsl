// BF16 weights: an octet is one vector, two values a word, the first low. A value is the upper half of
// an f32.

fn value_at(row: u32, column: u32) -> f32 {
    let at = row * params.columns + column;
    let word = quants[params.quants + at / 8u][at / 2u % 4u];
    let bits = select(word << 16u, word & 0xffff0000u, at % 2u == 1u);
    return select(0.0, bitcast<f32>(bits), column < params.columns);
}

fn vectors_of_octet(row: u32, octet: u32) -> mat2x4<f32> {
    let words = quants[vector_at(row, octet, params.columns / 8u)];
    let low = bitcast<vec4<f32>>(words << vec4<u32>(16u));
    let high = bitcast<vec4<f32>>(words & vec4<u32>(0xffff0000u));
    return mat2x4<f32>(low.x, high.x, low.y, high.y, low.z, high.z, low.w, high.w);
}
