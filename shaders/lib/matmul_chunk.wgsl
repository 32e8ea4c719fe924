// A chunk of three blocks of x in a private array, and its products with the blocks of a weight.

const CHUNK: u32 = 3u; // blocks
var<private> chunk: array<vec4<f32>, 8 * CHUNK>;
// The sums of the chunk's blocks. They are kept in memory because compilers (lavapipe's, for one) compute
// anew for every output what they find used only inside the loop over outputs.
var<private> totals: array<f32, CHUNK>;

// Puts quad `i` into the chunk. Quads come in their order.
fn put(i: u32, quad: vec4<f32>) {
    let before = select(totals[i / 8u], 0.0, i % 8u == 0u);
    totals[i / 8u] = before + dot(quad, vec4<f32>(1.0));
    chunk[i] = quad * place(i % 8u);
}

// The most outputs of an invocation at a time, whose sums wait here while chunk after chunk passes. An array
// at an index that is not constant costs software adapters a third of what a buffer does.
const STRIP: u32 = 48u;
var<private> sums: array<f32, STRIP>;

// A block of the weight times block `number` of the chunk.
fn chunk_product(output: u32, block: u32, number: u32, scale: vec2<f32>) -> f32 {
    let at = number * 8u;
    let w = block_quants(output, block);
    let sum = dot(w[0], chunk[at]) + dot(w[1], chunk[at + 1u])
        + dot(w[2], chunk[at + 2u]) + dot(w[3], chunk[at + 3u])
        + dot(w[4], chunk[at + 4u]) + dot(w[5], chunk[at + 5u])
        + dot(w[6], chunk[at + 6u]) + dot(w[7], chunk[at + 7u]);
    return scale.x * sum + scale.y * totals[number];
}

// The blocks of a weight's row from `block` on times the chunk. Past block `last` the chunk is zero and
// weights repeat.
fn chunk_products(output: u32, block: u32, last: u32) -> f32 {
    let scale = chunk_scales(output, block, last);
    return chunk_product(output, block, 0u, scale[0])
        + chunk_product(output, min(block + 1u, last), 1u, scale[1])
        + chunk_product(output, min(block + 2u, last), 2u, scale[2]);
}
