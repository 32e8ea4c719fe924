// The token of each row, and what the next step needs: the token and its position in the step, and its
// occurrence; a workgroup owns a row.
//
// Without filters the best of `partials` is it. With filters the candidates are: those from the top_k-th
// score up, equal ones included; of these, what remains when probabilities are removed in ascending order
// of scores, then of ids, while their sum is at most REMOVABLE; of these, what has at least MIN_P of the
// best token's probability; of these, the most typical, or those that are probable enough; and of these, the
// one with the greatest sum of score and noise. A list that is too short for its candidates is replaced by
// all tokens, so nothing is lost but time.
//
// A result is an id and a fault. Where BEST are reported, the score of the id and the logarithm of the
// whole weight follow, then the best of what is left with their scores, best first.
//
// Scores are compared as whole numbers of the same order (`key_of`). A threshold is found bit by bit: each
// time all invocations count, and add up what they counted in workgroup memory.

override LANES: u32 = 8u;

@group(0) @binding(1) var<storage, read_write> step: array<u32>;
@group(0) @binding(2) var<storage, read> plan: array<u32>;
@group(0) @binding(3) var<storage, read_write> rows: array<u32>;
@group(0) @binding(4) var<storage, read> scores: array<f32>;
@group(0) @binding(5) var<storage, read> partials: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read> candidates: array<u32>;
@group(0) @binding(7) var<storage, read_write> counts: array<u32>;
@group(0) @binding(8) var<storage, read_write> results: array<u32>;

// Faults, in place of 0: a score that cannot be compared; no token left.
const INCOMPARABLE: u32 = 1u;
const NOTHING_LEFT: u32 = 2u;

const NONE: u32 = 0xffffffffu; // an id that is none
const NOBODY = vec4<u32>(0xff7fffffu, NONE, 0u, 0u); // LOWEST, and no token
const ANYBODY = vec4<u32>(0x7f7fffffu, 0u, 0u, 0u); // better than every token

var<workgroup> sums: array<vec2<u32>, LANES>;
var<workgroup> bests: array<vec4<u32>, LANES>;
var<private> own: u32; // this invocation
var<private> base: u32; // where the row's scores begin
var<private> list: u32; // where its candidates begin
var<private> listed: bool; // whether the list holds them all
var<private> length: u32; // candidates
var<private> best: f32; // the best score
var<private> least: u32; // the key that top_k left
var<private> threshold: vec2<u32>; // the least key that is left, and of that the least id
var<private> share: f32; // the least probability relative to the best token's
var<private> surprise: f32; // how much less surprising than the entropy the best token is
var<private> farthest = -LOWEST; // what surprises may differ from the entropy

fn key_of(score: f32) -> u32 {
    let bits = bitcast<u32>(score);
    return select(bits ^ 0x80000000u, ~bits, (bits >> 31u) == 1u);
}

fn candidate(i: u32) -> u32 {
    if (listed) {
        return candidates[list + 4u + i];
    }
    return i;
}

// What all invocations summed, to each of them.
fn together(value: vec2<u32>) -> vec2<u32> {
    workgroupBarrier();
    sums[own] = value;
    workgroupBarrier();
    var sum = vec2<u32>();
    for (var i = 0u; i < LANES; i += 1u) {
        sum = add(sum, sums[i]);
    }
    return sum;
}

// Candidates with a key of at least `key`.
fn count_from(key: u32) -> u32 {
    var count = 0u;
    for (var i = own; i < length; i += LANES) {
        let score = scores[base + candidate(i)];
        count += select(0u, 1u, key_of(score) >= key && score > LOWEST);
    }
    return together(vec2<u32>(count, 0u)).x;
}

// The weight of candidates with a key of at least `key`.
fn weight_from(key: u32) -> vec2<u32> {
    var weight = vec2<u32>();
    for (var i = own; i < length; i += LANES) {
        let score = scores[base + candidate(i)];
        if (key_of(score) >= key && score > LOWEST) {
            weight = add(weight, vec2<u32>(weight_of(best - score), 0u));
        }
    }
    return together(weight);
}

// Candidates with this key and an id of at most `id`.
fn equals_to(key: u32, id: u32) -> u32 {
    var count = 0u;
    for (var i = own; i < length; i += LANES) {
        let token = candidate(i);
        count += select(0u, 1u, key_of(scores[base + token]) == key && token <= id);
    }
    return together(vec2<u32>(count, 0u)).x;
}

// The key of the top_k-th score, or 0 where there are fewer.
fn key_of_top_k(top_k: u32) -> u32 {
    var key = 0u;
    for (var bit = 0x80000000u; bit > 0u; bit >>= 1u) {
        if (count_from(key | bit) >= top_k) {
            key |= bit;
        }
    }
    return key;
}

// The lowest key that keeps a token, and the id up to which tokens of that key are removed (+ 1, 0 for none).
fn nucleus(removable: f32) -> vec2<u32> {
    var whole = vec2<u32>(candidates[list + 1u], candidates[list + 2u]);
    let kept = weight_from(least);
    if (plan[TOP_K] > 0u) {
        whole = kept;
    }
    let limit = removable * number(whole);
    // The greatest key at which everything with it and below may be removed.
    var key = 0u;
    for (var bit = 0x80000000u; bit > 0u; bit >>= 1u) {
        let trial = key | bit;
        let above = weight_from(max(trial + 1u, least));
        if (trial < 0xffffffffu && number(subtract(whole, above)) <= limit) {
            key = trial;
        }
    }
    key = min(key + 1u, key_of(best));
    // Some of the equal ones may go: those of the lowest ids.
    let equal = count_from(key) - count_from(key + 1u);
    let left = number(subtract(whole, weight_from(key + 1u))) - limit;
    let weight = (number(weight_from(key)) - number(weight_from(key + 1u))) / f32(max(equal, 1u));
    let needed = u32(clamp(ceil(left / max(weight, 1.0)), 1.0, f32(max(equal, 1u))));
    let gone = equal - min(needed, equal);
    var id = 0u;
    for (var bit = 0x80000000u; bit > 0u; bit >>= 1u) {
        // The greatest number of ids, counted from 0, that holds no more than `gone` of them.
        if (equals_to(key, (id | bit) - 1u) <= gone) {
            id |= bit;
        }
    }
    return vec2<u32>(key, select(id, 0u, gone == 0u));
}

// Whether the filters that were applied so far left a token.
fn kept(id: u32, score: f32) -> bool {
    let key = key_of(score);
    let above = key > threshold.x || (key == threshold.x && id >= threshold.y);
    let probable = score == best || exp(score - best) >= share;
    return score > LOWEST && above && probable && abs(best - score - surprise) <= farthest;
}

// The weight of what is left, or the sum of weights times distances from the best.
fn kept_weight(times_distance: bool) -> f32 {
    var weight = vec2<u32>();
    for (var i = own; i < length; i += LANES) {
        let id = candidate(i);
        let score = scores[base + id];
        if (kept(id, score)) {
            let distance = best - score;
            let factor = select(1.0, distance, times_distance);
            weight = add(weight, vec2<u32>(u32(exp(-distance) * factor * 0x1p31 + 0.5), 0u));
        }
    }
    return number(together(weight));
}

// Leaves the tokens whose surprise, −ln p, is nearest to the entropy and that have the probability TYPICAL.
// With weights w and distances d from the best, W = Σ w: −ln p = d + ln W and the entropy is
// ln W + Σ w · d / W. The greatest distance is found bit by bit: the least that leaves enough.
fn keep_typical() {
    let whole = kept_weight(false);
    surprise = kept_weight(true) / whole;
    var bits = 0u;
    for (var bit = 0x40000000u; bit > 0u; bit >>= 1u) {
        farthest = bitcast<f32>(bits | bit);
        // What weighs anything is nearer than 64, so that no trial comes to be infinite.
        if (kept_weight(false) < bitcast<f32>(plan[TYPICAL]) * whole) {
            bits |= bit;
        }
    }
    farthest = bitcast<f32>(bits + 1u);
}

// Leaves the tokens of at least the probability EPSILON, then of at least min(ETA, √ETA · e^(−entropy)).
fn keep_probable() {
    if (plan[EPSILON] != 0u) {
        var whole = kept_weight(false);
        if (plan[TOP_K] == 0u && plan[REMOVABLE] >= 0x80000000u && plan[MIN_P] == 0u) {
            // Where nothing was removed before, the list is already without what is removed here.
            whole = number(vec2<u32>(candidates[list + 1u], candidates[list + 2u]));
        }
        share = max(share, bitcast<f32>(plan[EPSILON]) * whole * UNIT);
    }
    if (plan[ETA] != 0u) {
        let eta = bitcast<f32>(plan[ETA]);
        let whole = kept_weight(false);
        // e^(−entropy) = e^(−Σ w · d / W) / W
        let falling = sqrt(eta) * exp(-kept_weight(true) / whole);
        share = max(share, min(eta * whole * UNIT, falling));
    }
}

// The best of what is left that is worse than `last`: its score, or that with noise relative to the best, and
// its id.
fn best_after(last: vec4<u32>, noisy: bool, row: u32) -> vec4<u32> {
    var found = NOBODY;
    for (var i = own; i < length; i += LANES) {
        let id = candidate(i);
        let score = scores[base + id];
        if (kept(id, score)) {
            var value = score;
            if (noisy) {
                value = score - best + noise(id, row);
            }
            let next = vec4<u32>(bitcast<u32>(value), id, 0u, 0u);
            if (better(last, next)) {
                found = select(found, next, better(next, found));
            }
        }
    }
    return best_of_all(found);
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let output = group.y * groups.x + group.x;
    let inside = output < step[1];
    let row = output * ROW_WORDS;
    own = lane;
    base = output * params.vocabulary;
    list = output * (params.most + 4u);
    best = best_score(min(output, step[1] - 1u), lane);

    // The best of the partials: score, id, faults.
    var found = NOBODY;
    for (var i = lane; i < PARTIALS && inside; i += LANES) {
        let partial = partials[output * PARTIALS + i];
        let bad = found.z | partial.z;
        found = select(found, partial, better(partial, found));
        found.z = bad;
    }
    found = best_of_all(found);
    var token = found.y;

    let filtered = plan[FILTERED] == 1u;
    let noisy = plan[NOISY] == 1u;
    if (filtered || plan[BEST] > 0u) {
        let count = candidates[list];
        listed = count <= params.most;
        length = select(0u, select(params.vocabulary, count, listed), inside);
    }
    if (filtered) {
        least = 0u;
        if (plan[TOP_K] > 0u) {
            least = key_of_top_k(plan[TOP_K]);
        }
        threshold = vec2<u32>(least, 0u);
        if (plan[REMOVABLE] < 0x80000000u) {
            let cut = nucleus(bitcast<f32>(plan[REMOVABLE]));
            threshold = select(threshold, cut, cut.x >= least);
        }
        share = bitcast<f32>(plan[MIN_P]);
        if (plan[TYPICAL] != 0u) {
            keep_typical();
        }
        keep_probable();
        token = best_after(ANYBODY, noisy, row).y;
    }

    let new_tokens = rows[row + NEW_TOKENS];
    let words = select(2u, 4u + 2u * plan[BEST], plan[BEST] > 0u);
    let result = ((new_tokens - rows[row + FIRST]) * step[1] + output) * words;
    if (plan[BEST] > 0u) {
        var weight = number(vec2<u32>(candidates[list + 1u], candidates[list + 2u]));
        if (filtered) {
            weight = kept_weight(false);
        }
        var last = ANYBODY;
        for (var n = 0u; n < plan[BEST]; n += 1u) {
            last = best_after(last, noisy && plan[SEARCH] == 1u, row);
            if (inside && lane == 0u) {
                let id = last.y;
                results[result + 4u + 2u * n] = id;
                results[result + 5u + 2u * n] = bitcast<u32>(scores[base + min(id, params.vocabulary - 1u)]);
            }
        }
        if (inside && lane == 0u) {
            results[result + 2u] = bitcast<u32>(scores[base + min(token, params.vocabulary - 1u)]);
            results[result + 3u] = bitcast<u32>(best + log(weight * UNIT));
        }
    }
    if (inside && lane == 0u) {
        var fault = 0u;
        if (found.z != 0u) {
            fault = INCOMPARABLE;
        } else if (token == NONE) {
            fault = NOTHING_LEFT;
        }
        let id = select(0u, token, fault == 0u);
        results[result] = id;
        results[result + 1u] = fault;
        let known = rows[row + LENGTH];
        if (known < params.history) {
            counts[params.past + output * params.history + known] = id;
        }
        rows[row + NEW_TOKENS] = new_tokens + 1u;
        rows[row + LENGTH] = known + 1u;
        step[params.tokens + output] = id;
        step[params.positions + output] += 1u;
        counts[base + id] += 1u;
    }
}

// Whether `a` has the greater score, or the same and the lower id.
fn better(a: vec4<u32>, b: vec4<u32>) -> bool {
    let a_score = bitcast<f32>(a.x);
    let b_score = bitcast<f32>(b.x);
    return a_score > b_score || (a_score == b_score && a.y < b.y);
}

// The best that any invocation found, and everybody's faults.
fn best_of_all(value: vec4<u32>) -> vec4<u32> {
    workgroupBarrier();
    bests[own] = value;
    workgroupBarrier();
    var result = value;
    for (var i = 0u; i < LANES; i += 1u) {
        let bad = result.z | bests[i].z;
        result = select(result, bests[i], better(bests[i], result));
        result.z = bad;
    }
    return result;
}
