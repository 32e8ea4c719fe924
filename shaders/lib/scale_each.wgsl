// The scales of three blocks, one by one, from `block` on. Past block `last` of the row they repeat.
fn chunk_scales(row: u32, block: u32, last: u32) -> mat3x2<f32> {
    return mat3x2<f32>(
        block_scale(row, block), block_scale(row, min(block + 1u, last)), block_scale(row, min(block + 2u, last)));
}
