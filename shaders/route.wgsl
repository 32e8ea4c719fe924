// The numbers of the experts with the highest scores, and their weights; an invocation owns one row.
//
// weight = exp(score − m) / Σ exp(score − m), m being the highest score; the sum is over all experts, or,
// normalised, over the chosen ones. Each choice looks for the highest score that comes after the last in
// the order of falling scores, the lower number first among equals.

struct Params {
    experts: u32,       // scores of a row
    chosen: u32,        // how many are chosen, at most as many
    normalise: u32,     // whether the sum is over the chosen ones, 0 or 1
    stride: u32,        // values from row to row of scores
    out_stride: u32,    // values from row to row of out
}

override LANES: u32 = 8u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> scores: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = (group.y * groups.x + group.x) * LANES + lane;
    if (row >= step[0]) {
        return;
    }
    let start = row * params.stride;
    let first = row * params.out_stride;
    var last = 0u;
    for (var i = 0u; i < params.chosen; i += 1u) {
        var best = 0u;
        var found = false;
        for (var expert = 0u; expert < params.experts; expert += 1u) {
            let score = scores[start + expert];
            let comes = i == 0u || score < scores[start + last] || (score == scores[start + last] && expert > last);
            if (comes && (!found || score > scores[start + best])) {
                best = expert;
                found = true;
            }
        }
        out[first + i] = f32(best);
        last = best;
    }
    let top = scores[start + u32(out[first])];
    let counted = select(params.experts, params.chosen, params.normalise == 1u);
    var total = 0.0;
    for (var i = 0u; i < counted; i += 1u) {
        var expert = i;
        if (params.normalise == 1u) {
            expert = u32(out[first + i]);
        }
        total += exp(scores[start + expert] - top);
    }
    for (var i = 0u; i < params.chosen; i += 1u) {
        out[first + params.chosen + i] = exp(scores[start + u32(out[first + i])] - top) / total;
    }
}
