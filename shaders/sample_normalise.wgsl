// The logarithm of the sum of exponentials of a row's logits, which makes log-probabilities of them when it
// is subtracted (sample_scores.wgsl); a workgroup owns a row.

override LANES: u32 = 8u;

@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> logits: array<f32>;
@group(0) @binding(3) var<storage, read_write> rows: array<u32>;

var<workgroup> tops: array<f32, LANES>;
var<workgroup> sums: array<vec2<u32>, LANES>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let output = group.y * groups.x + group.x;
    let base = min(output, step[1] - 1u) * params.stride;
    var top = LOWEST;
    for (var id = lane; id < params.vocabulary; id += LANES) {
        top = max(top, logits[base + id]);
    }
    tops[lane] = top;
    workgroupBarrier();
    for (var i = 0u; i < LANES; i += 1u) {
        top = max(top, tops[i]);
    }
    var sum = vec2<u32>();
    for (var id = lane; id < params.vocabulary; id += LANES) {
        sum = add(sum, vec2<u32>(weight_of(top - logits[base + id]), 0u));
    }
    sums[lane] = sum;
    workgroupBarrier();
    if (output < step[1] && lane == 0u) {
        for (var i = 1u; i < LANES; i += 1u) {
            sum = add(sum, sums[i]);
        }
        rows[output * ROW_WORDS + SHIFT] = bitcast<u32>(top + log(number(sum) * UNIT));
    }
}
