// How many tokens are how far below the best of their row, and their weights; a workgroup owns a slice of
// a row. What is in the last bin is so far below that it neither counts nor weighs.

override LANES: u32 = 8u;

@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> scores: array<f32>;
@group(0) @binding(3) var<storage, read> partials: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> bins: array<atomic<u32>>;
@group(0) @binding(5) var<storage, read_write> candidates: array<u32>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = group.y * groups.x + group.x;
    let slice = index % params.slices;
    let output = index / params.slices;
    let inside = output < step[1];
    let top = best_score(min(output, step[1] - 1u), lane);
    let length = (params.vocabulary + params.slices - 1u) / params.slices;
    let end = select(0u, min(slice * length + length, params.vocabulary), inside);
    for (var id = slice * length + lane; id < end; id += LANES) {
        let score = scores[output * params.vocabulary + id];
        let distance = top - score;
        let bin = bin_of(distance);
        if (score > LOWEST && bin < BINS - 1u) {
            let at = (output * BINS + bin) * BIN_WORDS;
            let weight = weight_of(distance);
            atomicAdd(&bins[at], 1u);
            let before = atomicAdd(&bins[at + 1u], weight);
            if (before + weight < before) {
                atomicAdd(&bins[at + 2u], 1u);
            }
        }
    }
    if (inside && slice == 0u && lane == 0u) {
        candidates[output * (params.most + 4u)] = 0u;
    }
}
