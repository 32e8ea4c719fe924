// A row of x is b, c and x of `width` values each; u = b · x. out = c · (Σᵢ w[i] · u[position − i] + bias) over
// i < taps, where u is 0 before the sequence begins and that of earlier positions comes from the cache, to
// which that of the row goes.
//
// An invocation owns a quad of four channels of a row. Rows of one sequence need a dispatch that stores and
// then one that convolves; where each row is of a sequence of its own, one can do both.

struct Params {
    positions: u32,     // where positions begin in the step
    slots: u32,         // where slots begin in the step
    tables: u32,        // where page tables begin in the step
    pages: u32,         // pages of a table
    page_size: u32,     // positions in a page
    width: u32,         // channels
    taps: u32,          // positions that a row sees, its own among them
    weight: u32,        // where the factors begin in their buffer: taps for each channel, the row's own last
    has_bias: u32,      // 1 if there is one
    bias: u32,          // where it begins in its buffer
    x_stride: u32,      // values from row to row of x
    out_stride: u32,    // values from row to row of out
}

override LANES: u32 = 64u;
override STORES: bool = true;
override CONVOLVES: bool = true;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> weight: array<f32>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> past: array<Quad>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;

// u of a channel of the row that begins at `start`; zero past the last channel.
fn gated(start: u32, channel: u32) -> f32 {
    if (channel >= params.width) {
        return 0.0;
    }
    return x[start + channel] * x[start + 2u * params.width + channel];
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let quads = (params.width + 3u) / 4u;
    let index = (group.y * groups.x + group.x) * LANES + lane;
    let row = index / quads;
    let quad = index % quads;
    if (row >= step[0]) {
        return;
    }
    let position = step[params.positions + row];
    let slot = step[params.slots + row];
    let channel = quad * 4u;
    let start = row * params.x_stride;
    let own = vec4<f32>(
        gated(start, channel), gated(start, channel + 1u),
        gated(start, channel + 2u), gated(start, channel + 3u));
    if (STORES) {
        past[entry_of(slot, position) * quads + quad] = pack_quad(own);
    }
    if (!CONVOLVES) {
        return;
    }
    var sums = vec4<f32>(0.0);
    for (var i = 0u; i < min(params.taps, position + 1u); i++) {
        var u = own;
        if (i > 0u) {
            u = unpack_quad(past[entry_of(slot, position - i) * quads + quad]);
        }
        for (var j = 0u; j < min(4u, params.width - channel); j++) {
            sums[j] += weight[params.weight + (channel + j + 1u) * params.taps - 1u - i] * u[j];
        }
    }
    for (var j = 0u; j < min(4u, params.width - channel); j++) {
        var sum = sums[j];
        if (params.has_bias == 1u) {
            sum += bias[params.bias + channel + j];
        }
        out[row * params.out_stride + channel + j] = x[start + params.width + channel + j] * sum;
    }
}
