// Scores from logits: the edits of the plan, in order, for every row of outputs; a workgroup owns a slice
// of a row, neighbouring invocations neighbouring tokens of it.
//
// An edit is, in eight words: kind, condition, its number, value, then where its ids and their numbers
// begin in the plan and how many there are. Lists are in ascending order of ids. Each invocation leaves its
// best token in `partials`: value, id, and whether a score was not a number that can be compared. The
// value has noise already where nothing is filtered.

override LANES: u32 = 8u;

@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> plan: array<u32>;
@group(0) @binding(3) var<storage, read> rows: array<u32>;
@group(0) @binding(4) var<storage, read> logits: array<f32>;
@group(0) @binding(5) var<storage, read> counts: array<u32>;
@group(0) @binding(6) var<storage, read_write> scores: array<f32>;
@group(0) @binding(7) var<storage, read_write> partials: array<vec4<u32>>;
@group(0) @binding(8) var<storage, read_write> bins: array<u32>;

// Kinds.
const REPETITION: u32 = 0u;     // score · value below 0, else score / value, for tokens that occurred
const FREQUENCY: u32 = 1u;      // score − value for each occurrence in the answer
const PRESENCE: u32 = 2u;       // score − value for tokens of the answer
const DIVIDE: u32 = 3u;         // score / value
const ADD: u32 = 4u;            // score + number, for the tokens of a list
const REMOVE: u32 = 5u;         // the tokens of a list
const FORCE: u32 = 6u;          // 0 for the tokens of a list, and no others

// Conditions.
const NEW_BELOW: u32 = 1u;      // the answer has fewer tokens than the number
const LENGTH_BELOW: u32 = 2u;   // prompt and answer have fewer
const NEW_IS: u32 = 3u;
const LENGTH_IS: u32 = 4u;
const LAST: u32 = 5u;           // the limit is reached with this token; anything else: always

fn applies(edit: u32, row: u32) -> bool {
    let number = plan[edit + 2u];
    let length = rows[row + LENGTH];
    let new_tokens = rows[row + NEW_TOKENS];
    switch (plan[edit + 1u]) {
        case NEW_BELOW: { return new_tokens < number; }
        case LENGTH_BELOW: { return length < number; }
        case NEW_IS: { return new_tokens == number; }
        case LENGTH_IS: { return length == number; }
        case LAST: { return length + 1u == rows[row + LIMIT]; }
        default: { return true; }
    }
}

// A score after an edit that is the same for all tokens, but for how often they occurred.
fn edited(kind: u32, value: f32, score: f32, count: u32) -> f32 {
    if (score == LOWEST) {
        return score;
    }
    var y = score;
    let answers = count & 0x7fffffffu;
    if (kind == DIVIDE) {
        y = score / value;
    } else if (kind == REPETITION && count != 0u) {
        y = select(score / value, score * value, score < 0.0);
    } else if (kind == FREQUENCY) {
        for (var i = 0u; i < answers; i += 1u) {
            y -= value;
        }
    } else if (kind == PRESENCE && answers != 0u) {
        y -= value;
    }
    return y;
}

// Whether a score is NaN or +∞, by its bits, because a compiler may assume that there are none.
fn incomparable(score: f32) -> bool {
    let bits = bitcast<u32>(score);
    return (bits & 0x7f800000u) == 0x7f800000u && bits != 0xff800000u;
}

// The first place of the list at which an id is `id` or more.
fn first_at_least(list: u32, count: u32, id: u32) -> u32 {
    var low = 0u;
    var high = count;
    while (low < high) {
        let middle = (low + high) / 2u;
        if (plan[list + middle] < id) {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    return low;
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = group.y * groups.x + group.x;
    let output = index / params.slices;
    let slice = index % params.slices;
    if (output >= step[1]) {
        return;
    }
    let row = output * ROW_WORDS;
    let length = (params.vocabulary + params.slices - 1u) / params.slices;
    let start = slice * length;
    let end = min(start + length, params.vocabulary);
    let base = output * params.vocabulary;
    for (var id = start + lane; id < end; id += LANES) {
        scores[base + id] = logits[output * params.stride + id];
    }
    for (var i = slice * LANES + lane; i < BINS * BIN_WORDS; i += params.slices * LANES) {
        bins[output * BINS * BIN_WORDS + i] = 0u;
    }
    for (var i = 0u; i < plan[EDITS]; i += 1u) {
        let edit = HEAD + i * EDIT_WORDS;
        if (!applies(edit, row)) {
            continue;
        }
        let kind = plan[edit];
        let value = bitcast<f32>(plan[edit + 3u]);
        if (kind < ADD) {
            for (var id = start + lane; id < end; id += LANES) {
                scores[base + id] = edited(kind, value, scores[base + id], counts[base + id]);
            }
            continue;
        }
        if (kind == FORCE) {
            for (var id = start + lane; id < end; id += LANES) {
                scores[base + id] = LOWEST;
            }
        }
        let list = plan[edit + 4u];
        let count = plan[edit + 6u];
        for (var at = first_at_least(list, count, start); at < count && plan[list + at] < end; at += 1u) {
            let id = plan[list + at];
            if ((id - start) % LANES != lane) {
                continue;
            }
            var y = select(LOWEST, 0.0, kind == FORCE);
            if (kind == ADD && scores[base + id] != LOWEST) {
                y = scores[base + id] + bitcast<f32>(plan[plan[edit + 5u] + at]);
            }
            scores[base + id] = y;
        }
    }
    let noisy = plan[NOISY] == 1u && plan[FILTERED] == 0u;
    var best = LOWEST;
    var best_id = 0xffffffffu;
    var bad = 0u;
    for (var id = start + lane; id < end; id += LANES) {
        var score = scores[base + id];
        bad |= select(0u, 1u, incomparable(score));
        // There is one zero and one way to be removed.
        score = max(select(score, 0.0, score == 0.0), LOWEST);
        scores[base + id] = score;
        if (noisy && score > LOWEST) {
            score += noise(id, row);
        }
        if (score > best) {
            best = score;
            best_id = id;
        }
    }
    partials[(output * params.slices + slice) * LANES + lane] = vec4<u32>(bitcast<u32>(best), best_id, bad, 0u);
}
