// F16 weights: an octet is one vector, two values a word, the first low.

fn value_at(row: u32, column: u32) -> f32 {
    let at = row * params.columns + column;
    let pair = unpack2x16float(quants[params.quants + at / 8u][at / 2u % 4u]);
    return select(0.0, select(pair.x, pair.y, at % 2u == 1u), column < params.columns);
}

fn vectors_of_octet(row: u32, octet: u32) -> mat2x4<f32> {
    let words = quants[vector_at(row, octet, params.columns / 8u)];
    return mat2x4<f32>(
        vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y)),
        vec4<f32>(unpack2x16float(words.z), unpack2x16float(words.w)));
}
