// A chunk of three blocks of x in a private array, and its products with the blocks of a weight.

const CHUNK: u32 = 3u; // blocks
var<private> chunk: array<vec4<f32>, 8 * CHUNK>;

// The sum of the quads of block `number` of the chunk, which were multiplied by their places.
fn chunk_total(number: u32) -> f32 {
    let at = number * 8u;
    return dot(chunk[at], 1.0 / place(0u)) + dot(chunk[at + 1u], 1.0 / place(1u))
        + dot(chunk[at + 2u], 1.0 / place(2u)) + dot(chunk[at + 3u], 1.0 / place(3u))
        + dot(chunk[at + 4u], 1.0 / place(4u)) + dot(chunk[at + 5u], 1.0 / place(5u))
        + dot(chunk[at + 6u], 1.0 / place(6u)) + dot(chunk[at + 7u], 1.0 / place(7u));
}

// A block of the weight times block `number` of the chunk, whose sum is `total`.
fn chunk_product(output: u32, block: u32, number: u32, total: f32) -> f32 {
    let at = number * 8u;
    let scale = block_scale(output, block);
    let w = block_quants(output, block);
    let sum = dot(w[0], chunk[at]) + dot(w[1], chunk[at + 1u])
        + dot(w[2], chunk[at + 2u]) + dot(w[3], chunk[at + 3u])
        + dot(w[4], chunk[at + 4u]) + dot(w[5], chunk[at + 5u])
        + dot(w[6], chunk[at + 6u]) + dot(w[7], chunk[at + 7u]);
    return scale.x * sum + scale.y * total;
}

fn chunk_totals() -> vec3<f32> {
    return vec3<f32>(chunk_total(0u), chunk_total(1u), chunk_total(2u));
}

// The blocks of a weight's row from `block` on times the chunk, whose sums are `totals`. Past block `last`
// the chunk is zero and weights repeat.
fn chunk_products(output: u32, block: u32, last: u32, totals: vec3<f32>) -> f32 {
    return chunk_product(output, block, 0u, totals.x)
        + chunk_product(output, min(block + 1u, last), 1u, totals.y)
        + chunk_product(output, min(block + 2u, last), 2u, totals.z);
}
