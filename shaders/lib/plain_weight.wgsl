// A weight without scales, in vectors of four words. Needs from the fragment of its format `value_at`
// and, for rows that begin at whole vectors, `vectors_of_octet`.
//
// Where columns is no multiple of 32 (not ALIGNED), row r begins at value r·columns after vector
// `params.quants`, octets straddle vectors, and values past the end of a row read as zero.

override ALIGNED: bool = false;

@group(0) @binding(3) var<storage, read> quants: array<vec4<u32>>;

fn octet_values(row: u32, block: u32, octet: u32) -> mat2x4<f32> {
    if (ALIGNED) {
        return vectors_of_octet(row, block * 4u + octet);
    }
    let column = block * 32u + octet * 8u;
    return mat2x4<f32>(
        value_at(row, column), value_at(row, column + 1u),
        value_at(row, column + 2u), value_at(row, column + 3u),
        value_at(row, column + 4u), value_at(row, column + 5u),
        value_at(row, column + 6u), value_at(row, column + 7u));
}

// The groups of four columns of a block that an octet holds.
fn octet_columns(octet: u32) -> vec2<u32> {
    return vec2<u32>(octet * 2u, octet * 2u + 1u);
}

// The values of a block are these times the scale (below), the quads of x that they meet times `place`.
fn block_quants(row: u32, block: u32) -> array<vec4<f32>, 8> {
    let a = octet_values(row, block, 0u);
    let b = octet_values(row, block, 1u);
    let c = octet_values(row, block, 2u);
    let d = octet_values(row, block, 3u);
    return array<vec4<f32>, 8>(a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]);
}

fn block_scale(row: u32, block: u32) -> vec2<f32> {
    return vec2<f32>(1.0, 0.0);
}

fn place(quad: u32) -> vec4<f32> {
    return vec4<f32>(1.0);
}
