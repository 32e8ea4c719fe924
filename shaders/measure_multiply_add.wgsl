// How fast an adapter multiplies and adds: twelve chains a ← a · factor + addend in each invocation, which
// fit the registers of every adapter and hide the latency of one another, and no memory but for the result.
// An invocation does 96 multiply-adds a round and leaves the sum of its chains in `out`.

override LANES: u32 = 64u;

struct Params {
    rounds: u32,
    factor: f32,
    addend: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let factor = vec4<f32>(params.factor);
    let addend = vec4<f32>(params.addend);
    var a = vec4<f32>(0.0, 1.0, 2.0, 3.0);
    var b = a + 4.0;
    var c = a + 8.0;
    for (var i = 0u; i < params.rounds; i += 1u) {
        a = fma(a, factor, addend); b = fma(b, factor, addend); c = fma(c, factor, addend);
        a = fma(a, factor, addend); b = fma(b, factor, addend); c = fma(c, factor, addend);
        a = fma(a, factor, addend); b = fma(b, factor, addend); c = fma(c, factor, addend);
        a = fma(a, factor, addend); b = fma(b, factor, addend); c = fma(c, factor, addend);
        a = fma(a, factor, addend); b = fma(b, factor, addend); c = fma(c, factor, addend);
        a = fma(a, factor, addend); b = fma(b, factor, addend); c = fma(c, factor, addend);
        a = fma(a, factor, addend); b = fma(b, factor, addend); c = fma(c, factor, addend);
        a = fma(a, factor, addend); b = fma(b, factor, addend); c = fma(c, factor, addend);
    }
    let sum = a + b + c;
    out[group.x * LANES + lane] = sum.x + sum.y + sum.z + sum.w;
}
