// What the forms of the experts' products share. An item is an output of one slot of one row: y = the row
// of x times a row of the slot's expert; or, summed, an output of one row: the sum over its slots of the
// slot's weight times y. The matrices of all experts lie below each other; columns are in blocks of 32, and
// x is zero between the last column and the end of its block.

struct Params {
    chosen: u32,        // slots of a row
    columns: u32,       // values in a row of the weight
    blocks: u32,        // blocks in a row of the weight
    outputs: u32,       // rows of one expert's matrix
    part: u32,          // rows of this part of the weight
    first: u32,         // the row that the part begins with
    quants: u32,        // where the part begins in quants, in vectors
    scales: u32,        // where the part begins in scales, in words
    join: u32,          // one of the three below
    route_stride: u32,  // values from row to row of route
    x_stride: u32,      // values from row to row of x, a multiple of 32
    x_slot: u32,        // values from slot to slot of x: as many, or 0 where slots share x
    out_stride: u32,    // values from row to row of out and residual
    out_slot: u32,      // values from slot to slot of out and residual; 0 where summed
    activation: u32,    // as in lib/activation.wgsl
    cap: f32,           // as in lib/activation.wgsl
}

const PLAIN: u32 = 0u;  // out = y
const GATE: u32 = 1u;   // out = activate(residual) · y
const SUM: u32 = 2u;    // out = out + Σ weight · y

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> route: array<f32>;
@group(0) @binding(6) var<storage, read> residual: array<f32>;
@group(0) @binding(7) var<storage, read_write> out: array<f32>;

// An item: its row, its output, its first slot, and the slot after its last.
fn item_of(index: u32) -> vec4<u32> {
    let rest = index / params.outputs;
    if (params.join == SUM) {
        return vec4<u32>(rest, index % params.outputs, 0u, params.chosen);
    }
    let slot = rest % params.chosen;
    return vec4<u32>(rest / params.chosen, index % params.outputs, slot, slot + 1u);
}

// The row of the weight that makes this output of a slot.
fn weight_row(item: vec4<u32>, slot: u32) -> u32 {
    return u32(route[item.x * params.route_stride + slot]) * params.outputs + item.y;
}

// Whether the row lies in this part of the weight.
fn in_part(weight: u32) -> bool {
    return weight >= params.first && weight - params.first < params.part;
}

// What y counts.
fn slot_weight(item: vec4<u32>, slot: u32) -> f32 {
    if (params.join == SUM) {
        return route[item.x * params.route_stride + params.chosen + slot];
    }
    return 1.0;
}

// The product of an octet of the weight with the values of x that it meets.
fn octet_product(item: vec4<u32>, slot: u32, weight: u32, block: u32, octet: u32) -> f32 {
    let w = octet_values(weight - params.first, block, octet);
    let quads = (item.x * params.x_stride + slot * params.x_slot) / 4u + block * 8u + octet_columns(octet);
    return dot(w[0], x[quads.x]) + dot(w[1], x[quads.y]);
}

fn store(item: vec4<u32>, y: f32) {
    let at = item.x * params.out_stride + item.z * params.out_slot + item.y;
    if (params.join == SUM) {
        out[at] += y;
    } else if (in_part(weight_row(item, item.z))) {
        if (params.join == GATE) {
            out[at] = activate(residual[at]) * y;
        } else {
            out[at] = y;
        }
    }
}
