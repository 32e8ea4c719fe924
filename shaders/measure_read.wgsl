// How fast an adapter reads: adds up a buffer, and does nothing else worth mentioning.
//
// Workgroups own strips that follow one another. The invocations of one take neighbouring quads in turn or,
// where not NEIGHBOURS, a strip of their own each: which of the two is faster depends on the adapter. The
// number of quads is a multiple of the invocations of all workgroups times eight. Sums wrap around; each
// invocation leaves its own in `out`.

override LANES: u32 = 64u;
override NEIGHBOURS: bool = true;

struct Params {
    quads: u32, // of the whole buffer
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> data: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let each = params.quads / (groups.x * LANES);
    var at = group.x * each * LANES + select(lane * each, lane, NEIGHBOURS);
    let apart = select(1u, LANES, NEIGHBOURS);
    var a = vec4<u32>();
    var b = vec4<u32>();
    for (var i = 0u; i < each; i += 8u) {
        a += data[at] + data[at + apart] + data[at + 2u * apart] + data[at + 3u * apart];
        at += 4u * apart;
        b += data[at] + data[at + apart] + data[at + 2u * apart] + data[at + 3u * apart];
        at += 4u * apart;
    }
    let sum = a + b;
    out[group.x * LANES + lane] = sum.x + sum.y + sum.z + sum.w;
}
