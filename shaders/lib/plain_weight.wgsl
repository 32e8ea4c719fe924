// A weight without scales. Needs `value_at` from the fragment of its format.

override ALIGNED: bool = false; // whether rows begin at whole vectors

@group(0) @binding(3) var<storage, read> quants: array<vec4<u32>>;

fn block_scale(row: u32, block: u32) -> vec2<f32> {
    return vec2<f32>(1.0, 0.0);
}

fn octet_columns(octet: u32) -> vec2<u32> {
    return vec2<u32>(0u, 1u);
}

fn octet_values(row: u32, block: u32, octet: u32, scale: vec2<f32>) -> mat2x4<f32> {
    return octet_at(row, block, octet);
}

fn straddling_octet(row: u32, block: u32) -> mat2x4<f32> {
    let column = block * 8u;
    return mat2x4<f32>(
        value_at(row, column), value_at(row, column + 1u),
        value_at(row, column + 2u), value_at(row, column + 3u),
        value_at(row, column + 4u), value_at(row, column + 5u),
        value_at(row, column + 6u), value_at(row, column + 7u));
}
