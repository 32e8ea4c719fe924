// Lists the tokens of a row that may survive the filters, or that are reported: those of the bins from the
// best down to the one in which their number, or else the share of probability that may be removed, or
// else the least probability, is settled. A workgroup owns a slice of a row.
//
// A row's list: how many tokens belong to it, perhaps more than it holds, then the row's whole weight in
// two words, a word of nothing, and the ids in any order.

override LANES: u32 = 8u;

@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> plan: array<u32>;
@group(0) @binding(3) var<storage, read> scores: array<f32>;
@group(0) @binding(4) var<storage, read> partials: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> bins: array<u32>;
@group(0) @binding(6) var<storage, read_write> candidates: array<atomic<u32>>;

var<workgroup> lane_counts: array<u32, LANES>;
var<workgroup> lane_weights: array<vec2<u32>, LANES>;
var<workgroup> lane_cuts: array<u32, LANES>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = group.y * groups.x + group.x;
    let slice = index % params.slices;
    let output = min(index / params.slices, step[1] - 1u);
    let inside = index / params.slices < step[1];
    let top = best_score(output, lane);

    // Each invocation sums a stretch of bins.
    let stretch = (BINS + LANES - 1u) / LANES;
    let begin = lane * stretch;
    let stop = min(begin + stretch, BINS);
    let base = output * BINS * BIN_WORDS;
    var count = 0u;
    var weight = vec2<u32>();
    for (var bin = begin; bin < stop; bin += 1u) {
        let at = base + bin * BIN_WORDS;
        count += bins[at];
        weight = add(weight, vec2<u32>(bins[at + 1u], bins[at + 2u]));
    }
    lane_counts[lane] = count;
    lane_weights[lane] = weight;
    workgroupBarrier();
    count = 0u;
    weight = vec2<u32>();
    var whole = vec2<u32>();
    for (var i = 0u; i < LANES; i += 1u) {
        if (i == lane) {
            count = 0u;
            weight = whole;
        }
        whole = add(whole, lane_weights[i]);
    }
    for (var i = 0u; i < lane; i += 1u) {
        count += lane_counts[i];
    }

    // Within its stretch, where is the matter settled?
    let listed = plan[LISTED];
    let removable = bitcast<f32>(plan[REMOVABLE]);
    let total = number(whole);
    var cut = BINS - 1u;
    for (var bin = begin; bin < stop; bin += 1u) {
        let at = base + bin * BIN_WORDS;
        count += bins[at];
        weight = add(weight, vec2<u32>(bins[at + 1u], bins[at + 2u]));
        var settled = listed > 0u && count >= listed;
        if (listed == 0u && removable >= 0.0) {
            settled = number(subtract(whole, weight)) <= removable * total * 0.9999;
        }
        if (settled) {
            cut = min(cut, bin);
        }
    }
    lane_cuts[lane] = cut;
    workgroupBarrier();
    for (var i = 0u; i < LANES; i += 1u) {
        cut = min(cut, lane_cuts[i]);
    }
    var share = bitcast<f32>(plan[MIN_P]);
    if (share == 0.0) {
        share = bitcast<f32>(plan[EPSILON]) * total * UNIT;
    }
    if (listed == 0u && removable < 0.0 && share > 0.0) {
        cut = bin_of(max(-log(share), 0.0) + 0.01);
    }

    let list = output * (params.most + 4u);
    let length = (params.vocabulary + params.slices - 1u) / params.slices;
    let end = select(0u, min(slice * length + length, params.vocabulary), inside);
    for (var id = slice * length + lane; id < end; id += LANES) {
        let score = scores[output * params.vocabulary + id];
        if (score > LOWEST && bin_of(top - score) <= cut) {
            let at = atomicAdd(&candidates[list], 1u);
            if (at < params.most) {
                atomicStore(&candidates[list + 4u + at], id);
            }
        }
    }
    if (inside && slice == 0u && lane == 0u) {
        atomicStore(&candidates[list + 1u], whole.x);
        atomicStore(&candidates[list + 2u], whole.y);
    }
}
