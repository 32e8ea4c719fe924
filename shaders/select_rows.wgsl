// out[i] = x[outputs[i]]; an invocation owns a quad of four values.

struct Params {
    outputs: u32,       // where outputs begin in the step
    stride: u32,        // values from row to row of x and out, a multiple of 8
}

override LANES: u32 = 64u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let quads = params.stride / 4u;
    let index = (group.y * groups.x + group.x) * LANES + lane;
    let row = index / quads;
    let quad = index % quads;
    if (row < step[1]) {
        out[row * quads + quad] = x[step[params.outputs + row] * quads + quad];
    }
}
