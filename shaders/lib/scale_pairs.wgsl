// The scales of three blocks from `block` on, where two f16 share a word, the first low: two words have them
// all. value = scale · (level + OFFSET), with OFFSET from the fragment of the format. Past block `last` of the
// row they are zero.
fn chunk_scales(row: u32, block: u32, last: u32) -> mat3x2<f32> {
    let at = row * params.blocks + block;
    let first = scales[params.scales + at / 2u];
    let second = scales[params.scales + at / 2u + 1u];
    let odd = at % 2u == 1u;
    let pair = unpack2x16float(select(first, (first >> 16u) | (second << 16u), odd));
    let third = unpack2x16float(select(second, second >> 16u, odd)).x;
    let each = vec3<f32>(
        pair.x, select(0.0, pair.y, block + 1u <= last), select(0.0, third, block + 2u <= last));
    return mat3x2<f32>(each.x, OFFSET * each.x, each.y, OFFSET * each.y, each.z, OFFSET * each.z);
}
