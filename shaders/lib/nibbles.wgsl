// Blocks of 32 values in four words of nibbles. Byte i holds value i in its low nibble and value i + 16
// in its high one, so word w is the octet of columns 4w… and 16 + 4w….

const OCTETS: u32 = 4u; // octets in a block

@group(0) @binding(3) var<storage, read> quants: array<u32>;
@group(0) @binding(4) var<storage, read> scales: array<u32>;

// The groups of four columns of a block that an octet holds.
fn octet_columns(octet: u32) -> vec2<u32> {
    return vec2<u32>(octet, octet + 4u);
}

fn octet_nibbles(row: u32, block: u32, octet: u32) -> mat2x4<f32> {
    let word = quants[params.quants + (row * params.blocks + block) * OCTETS + octet];
    let low = vec4<u32>(word, word >> 8u, word >> 16u, word >> 24u) & vec4<u32>(15u);
    let high = vec4<u32>(word >> 4u, word >> 12u, word >> 20u, word >> 28u) & vec4<u32>(15u);
    // Through i32, because software adapters convert unsigned numbers in several instructions.
    return mat2x4<f32>(vec4<f32>(vec4<i32>(low)), vec4<f32>(vec4<i32>(high)));
}
