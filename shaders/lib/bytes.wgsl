// Four levels below 128 in the bytes of a word. Each is converted where it stands, through i32 because
// software adapters convert unsigned numbers in several instructions; its place is divided out elsewhere.

@group(0) @binding(3) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<u32>;

const BYTE_PLACES = vec4<f32>(0x1p0, 0x1p-8, 0x1p-16, 0x1p-24);

fn byte_levels(word: u32) -> vec4<f32> {
    return vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(word) & vec4<u32>(0xffu, 0xff00u, 0xff0000u, 0xff000000u)));
}
