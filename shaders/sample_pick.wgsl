// The token of each row, and what the next step needs: the token and its position in the step, and its
// occurrence; a workgroup owns a row.
//
// Without filters the best of `partials` is it. With filters the candidates are: those from the top_k-th
// score up, equal ones included; of these, what remains when probabilities are removed in ascending order
// of scores, then of ids, while their sum is at most REMOVABLE; of these, what has at least MIN_P of the
// best token's probability; and of these, the one with the greatest sum of score and noise. A list that is
// too short for its candidates is replaced by all tokens, so nothing is lost but time.
//
// Scores are compared as whole numbers of the same order (`key_of`). A threshold is found bit by bit: each
// time all invocations count, and add up what they counted in workgroup memory.

override LANES: u32 = 8u;
override PARTIALS: u32 = 64u; // partials of a row

@group(0) @binding(1) var<storage, read_write> step: array<u32>;
@group(0) @binding(2) var<storage, read> plan: array<u32>;
@group(0) @binding(3) var<storage, read_write> rows: array<u32>;
@group(0) @binding(4) var<storage, read> scores: array<f32>;
@group(0) @binding(5) var<storage, read> partials: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read> candidates: array<u32>;
@group(0) @binding(7) var<storage, read_write> counts: array<u32>;
@group(0) @binding(8) var<storage, read_write> results: array<vec2<u32>>;

// Faults, in place of 0: a score that cannot be compared; no token left.
const INCOMPARABLE: u32 = 1u;
const NOTHING_LEFT: u32 = 2u;

var<workgroup> sums: array<vec2<u32>, LANES>;
var<workgroup> bests: array<vec4<u32>, LANES>;
var<private> own: u32; // this invocation
var<private> base: u32; // where the row's scores begin
var<private> list: u32; // where its candidates begin
var<private> listed: bool; // whether the list holds them all
var<private> length: u32; // candidates
var<private> best: f32; // the best score, where there are filters
var<private> least: u32; // the key that top_k left

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

    // The best of the partials: score, id, faults.
    var found = vec4<u32>(bitcast<u32>(LOWEST), 0xffffffffu, 0u, 0u);
    for (var i = lane; i < PARTIALS && inside; i += LANES) {
        let partial = partials[output * PARTIALS + i];
        let bad = found.z | partial.z;
        found = select(found, partial, better(partial, found));
        found.z = bad;
    }
    found = best_of_all(found);
    var token = found.y;

    if (plan[FILTERED] == 1u) {
        best = bitcast<f32>(found.x);
        let count = candidates[list];
        listed = count <= params.most;
        length = select(0u, select(params.vocabulary, count, listed), inside);
        least = 0u;
        if (plan[TOP_K] > 0u) {
            least = key_of_top_k(plan[TOP_K]);
        }
        var threshold = vec2<u32>(least, 0u);
        let removable = bitcast<f32>(plan[REMOVABLE]);
        if (plan[REMOVABLE] < 0x80000000u) {
            let cut = nucleus(removable);
            threshold = select(threshold, cut, cut.x >= least);
        }
        let min_p = bitcast<f32>(plan[MIN_P]);
        var chosen = vec4<u32>(bitcast<u32>(LOWEST), 0xffffffffu, found.z, 0u);
        for (var i = lane; i < length; i += LANES) {
            let id = candidate(i);
            let score = scores[base + id];
            let key = key_of(score);
            let kept = key > threshold.x || (key == threshold.x && id >= threshold.y);
            let probable = score == best || exp(score - best) >= min_p;
            if (score > LOWEST && kept && probable) {
                var value = score - best;
                if (plan[NOISY] == 1u) {
                    value += noise(id, row);
                }
                let next = vec4<u32>(bitcast<u32>(value), id, found.z, 0u);
                chosen = select(chosen, next, better(next, chosen));
            }
        }
        token = best_of_all(chosen).y;
    }

    if (inside && lane == 0u) {
        var fault = 0u;
        if (found.z != 0u) {
            fault = INCOMPARABLE;
        } else if (token == 0xffffffffu) {
            fault = NOTHING_LEFT;
        }
        let id = select(0u, token, fault == 0u);
        let new_tokens = rows[row + NEW_TOKENS];
        results[(new_tokens - rows[row + FIRST]) * step[1] + output] = vec2<u32>(id, fault);
        rows[row + NEW_TOKENS] = new_tokens + 1u;
        rows[row + LENGTH] += 1u;
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
