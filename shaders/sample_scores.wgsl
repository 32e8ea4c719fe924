// Scores from logits: the edits of the plan, in order, for every row of outputs; a workgroup owns a slice
// of a row, neighbouring invocations neighbouring tokens of it.
//
// An edit is, in eight words: kind, condition, its number, value, then where its ids and their numbers
// begin in the plan, how many there are, and how many ids the condition has. GROW has, in place of numbers,
// how many tokens do not count. Lists are in ascending order of ids. Each invocation leaves its best token in `partials`: value, id, whether a score was not a number
// that can be compared, and the best score. The value has noise already where nothing is filtered.

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
const GROW: u32 = 7u;           // score + |score| · (valueᵏ − 1), k the answer's tokens beyond some
const NO_REPEAT: u32 = 8u;      // the tokens that would complete a sequence, as long as a list, that occurred

// Conditions.
const NEW_BELOW: u32 = 1u;      // the answer has fewer tokens than the number
const LENGTH_BELOW: u32 = 2u;   // prompt and answer have fewer
const NEW_IS: u32 = 3u;
const LENGTH_IS: u32 = 4u;
const LAST: u32 = 5u;           // the limit is reached with this token
const BEGINS: u32 = 6u;         // the answer begins; after a prompt of one token, it has as many as the number
const AFTER: u32 = 7u;          // ids end with those in the plan at the number; anything else: always

// Whether `count` ids at `a` are those of the row at `b`.
fn same_ids(a: u32, b: u32, count: u32) -> bool {
    for (var i = 0u; i < count; i += 1u) {
        if (counts[a + i] != counts[b + i]) {
            return false;
        }
    }
    return true;
}

// Whether the ids of a row, which end at `end`, end with the `count` ids of the plan at `list`.
fn ends_with(list: u32, count: u32, end: u32) -> bool {
    for (var i = 0u; i < count; i += 1u) {
        if (plan[list + i] != counts[end - count + i]) {
            return false;
        }
    }
    return true;
}

fn applies(edit: u32, row: u32, past: u32) -> bool {
    let number = plan[edit + 2u];
    let length = rows[row + LENGTH];
    let new_tokens = rows[row + NEW_TOKENS];
    switch (plan[edit + 1u]) {
        case NEW_BELOW: { return new_tokens < number; }
        case LENGTH_BELOW: { return length < number; }
        case NEW_IS: { return new_tokens == number; }
        case LENGTH_IS: { return length == number; }
        case LAST: { return length + 1u == rows[row + LIMIT]; }
        case BEGINS: { return new_tokens == select(0u, number, length - new_tokens <= 1u); }
        case AFTER: {
            let count = plan[edit + 7u];
            return count <= length && ends_with(number, count, past + length);
        }
        default: { return true; }
    }
}

// A score that has grown for each token of the answer above `start`.
fn grown(score: f32, value: f32, start: u32, new_tokens: u32) -> f32 {
    var factor = 1.0;
    for (var i = start; i < new_tokens; i += 1u) {
        factor *= value;
    }
    return min(score + abs(score) * min(factor - 1.0, -LOWEST), -LOWEST);
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
    let past = params.past + output * params.history;
    let shift = bitcast<f32>(rows[row + SHIFT]);
    for (var id = start + lane; id < end; id += LANES) {
        scores[base + id] = logits[output * params.stride + id] - shift;
    }
    for (var i = slice * LANES + lane; i < BINS * BIN_WORDS; i += params.slices * LANES) {
        bins[output * BINS * BIN_WORDS + i] = 0u;
    }
    for (var i = 0u; i < plan[EDITS]; i += 1u) {
        let edit = HEAD + i * EDIT_WORDS;
        if (!applies(edit, row, past)) {
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
        if (kind == NO_REPEAT) {
            // Of every sequence of `count` ids, the last is looked at first: it is seldom this invocation's.
            let length = rows[row + LENGTH];
            for (var at = count - 1u; at < length; at += 1u) {
                let id = counts[past + at];
                if (id >= start && id < end && (id - start) % LANES == lane
                    && same_ids(past + at + 1u - count, past + length + 1u - count, count - 1u)) {
                    scores[base + id] = LOWEST;
                }
            }
            continue;
        }
        for (var at = first_at_least(list, count, start); at < count && plan[list + at] < end; at += 1u) {
            let id = plan[list + at];
            if ((id - start) % LANES != lane) {
                continue;
            }
            var y = select(LOWEST, 0.0, kind == FORCE);
            let score = scores[base + id];
            if (kind == ADD && score != LOWEST) {
                y = score + bitcast<f32>(plan[plan[edit + 5u] + at]);
            } else if (kind == GROW && score != LOWEST) {
                y = grown(score, value, plan[edit + 5u], rows[row + NEW_TOKENS]);
            }
            scores[base + id] = y;
        }
    }
    let noisy = plan[NOISY] == 1u && plan[FILTERED] == 0u;
    var best = LOWEST;
    var best_id = 0xffffffffu;
    var plain = LOWEST;
    var bad = 0u;
    for (var id = start + lane; id < end; id += LANES) {
        var score = scores[base + id];
        bad |= select(0u, 1u, incomparable(score));
        // There is one zero and one way to be removed.
        score = max(select(score, 0.0, score == 0.0), LOWEST);
        scores[base + id] = score;
        plain = max(plain, score);
        if (noisy && score > LOWEST) {
            score += noise(id, row);
        }
        if (score > best) {
            best = score;
            best_id = id;
        }
    }
    let partial = vec4<u32>(bitcast<u32>(best), best_id, bad, bitcast<u32>(plain));
    partials[(output * params.slices + slice) * LANES + lane] = partial;
}
