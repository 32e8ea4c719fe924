// What the kernels of sampling share. Scores are kept apart from the logits; a removed token has the
// score LOWEST. A row's tokens are cut into `slices` slices, a workgroup each, and taken by neighbouring
// invocations in turn.

struct Params {
    vocabulary: u32,    // tokens
    stride: u32,        // values from row to row of logits
    slices: u32,        // slices of a row
    most: u32,          // candidates that a row's list holds
    tokens: u32,        // where tokens begin in the step
    positions: u32,     // where positions begin in the step
    past: u32,          // where the ids of rows begin, behind the counts
    history: u32,       // ids that a row may have
}

@group(0) @binding(0) var<uniform> params: Params;

// Below every score that can be chosen.
const LOWEST: f32 = -3.4028234e38;

// The plan: a head of words, then the edits, eight words each, then lists of ids and numbers. Shares are f32.
const EDITS: u32 = 0u;          // how many edits there are
const NOISY: u32 = 1u;          // whether tokens are drawn, 0 or 1
const FILTERED: u32 = 2u;       // whether any filter is used, 0 or 1
const TOP_K: u32 = 3u;          // tokens to keep, 0 for all
const REMOVABLE: u32 = 4u;      // the probability that may be removed from below; negative for none
const MIN_P: u32 = 5u;          // the least probability relative to the best token's; perhaps 0
const SEED: u32 = 6u;           // two words
const BEST: u32 = 8u;           // how many of the best tokens are reported
const LISTED: u32 = 9u;         // this many of the best tokens are candidates enough, 0: it is not so simple
const TYPICAL: u32 = 10u;       // the probability that the most typical tokens keep, 0 for all
const EPSILON: u32 = 11u;       // the least probability, perhaps 0
const ETA: u32 = 12u;           // the same where it follows the entropy
const SEARCH: u32 = 13u;        // whether the best are those with noise, 0 or 1
const HEAD: u32 = 16u;
const EDIT_WORDS: u32 = 8u;

// A row: who it is, for draws and conditions.
const SEQUENCE: u32 = 0u;       // the sequence's number in the call
const NEW_TOKENS: u32 = 1u;     // tokens of the answer so far
const LENGTH: u32 = 2u;         // tokens of prompt and answer so far
const LIMIT: u32 = 3u;          // the most tokens that they may come to
const FIRST: u32 = 4u;          // NEW_TOKENS at the beginning of the run
const SHIFT: u32 = 5u;          // what is subtracted from logits, an f32
const ROW_WORDS: u32 = 8u;

// Bins of candidates: by how far a score is below the best, BINS_OF_ONE bins for a distance of 1. A bin
// has the number of its tokens and the sum of their weights in two words, the low one first.
const BINS: u32 = 1024u;
const BINS_OF_ONE: f32 = 32.0;
const BIN_WORDS: u32 = 3u;

fn bin_of(distance: f32) -> u32 {
    return u32(min(distance * BINS_OF_ONE, f32(BINS - 1u)));
}

// Weights, exp(−distance), are whole numbers of this, the nearest: sums of these are the same in every order.
const UNIT: f32 = 0x1p-31;

fn weight_of(distance: f32) -> u32 {
    return u32(exp(-distance) * 0x1p31 + 0.5);
}

fn add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}

fn subtract(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}

fn number(a: vec2<u32>) -> f32 {
    return f32(a.y) * 4294967296.0 + f32(a.x);
}
