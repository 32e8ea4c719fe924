// Joins the parts that attention_split.wgsl or attention_rotary.wgsl made; an invocation owns one quad of one head of one row.
//
// With a part's sum of weighted values s, total weight t and maximum m, and M the largest m:
// out = Σ exp(m − M) · s / Σ exp(m − M) · t. A part without positions has t = 0 and weighs nothing.

struct Params {
    heads: u32,         // query heads
    quads: u32,         // quads of a head
    splits: u32,        // as in lib/attention.wgsl
    stride: u32,        // values from row to row of out
}

override LANES: u32 = 64u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> parts: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = (group.y * groups.x + group.x) * LANES + lane;
    let quad = index % params.quads;
    let head = index / params.quads % params.heads;
    let row = index / params.quads / params.heads;
    if (row >= step[0]) {
        return;
    }
    let splits = max(params.splits / step[0], 1u);
    let length = params.quads + 1u;
    let first = (row * params.heads + head) * splits * length;
    var top = parts[first + params.quads].y;
    for (var split = 1u; split < splits; split += 1u) {
        top = max(top, parts[first + split * length + params.quads].y);
    }
    var sum = vec4<f32>();
    var total = 0.0;
    for (var split = 0u; split < splits; split += 1u) {
        let part = first + split * length;
        let ends = parts[part + params.quads];
        let weight = exp(ends.y - top);
        sum += weight * parts[part + quad];
        total += weight * ends.x;
    }
    out[(row * params.stride) / 4u + head * params.quads + quad] = sum / total;
}
