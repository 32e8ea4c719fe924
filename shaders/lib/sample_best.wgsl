// The best score of a row, without noise, from what sample_scores.wgsl left in `partials`; every invocation of the
// workgroup must call it. LANES is that of sample_scores.wgsl.

override PARTIALS: u32 = 64u; // partials of a row

var<workgroup> tops: array<f32, LANES>;

fn best_score(output: u32, lane: u32) -> f32 {
    var best = LOWEST;
    for (var i = lane; i < PARTIALS; i += LANES) {
        best = max(best, bitcast<f32>(partials[output * PARTIALS + i].w));
    }
    tops[lane] = best;
    workgroupBarrier();
    for (var i = 0u; i < LANES; i += 1u) {
        best = max(best, tops[i]);
    }
    return best;
}
