// What the forms of attention share: out = Σⱼ softmax(scale · q·kⱼ) vⱼ over the positions j of a row's
// sequence up to its own that lie in its window, head by head.

struct Params {
    positions: u32,     // where positions begin in the step
    slots: u32,         // where slots begin in the step
    tables: u32,        // where page tables begin in the step
    pages: u32,         // pages of a table
    page_size: u32,     // positions in a page
    heads: u32,         // query heads
    kv_heads: u32,      // heads of an entry; a divisor of heads
    head_dim: u32,      // values in a head
    quads: u32,         // quads of a head in an entry
    stride: u32,        // values from row to row of q and out
    splits: u32,        // parts of the positions for one row; more rows share them
    window: u32,        // positions that a row sees, its own among them
    scale: f32,         // what scores are multiplied by
    cap: f32,           // what they stay below in magnitude then, or 0 for no cap
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read> keys: array<Quad>;
@group(0) @binding(4) var<storage, read> values: array<Quad>;
