// What the forms of normalisation share: out [+]= weight · y / √(mean(y²) + ε) [+ bias] with y = x, or,
// where CENTRED, y = x − mean(x); group by group. A group is `items` items: quads, or single values where
// groups are no whole quads.

struct Params {
    rows_at: u32,       // the step's word that holds the number of rows
    groups: u32,        // groups of a row
    size: u32,          // values of a group
    items: u32,         // items of a group, the last perhaps not whole if it is the only group
    stride: u32,        // items from row to row of x and out
    weight: u32,        // where the weight begins in its buffer, in items
    weight_items: u32,  // items of the weight: one group's, or a whole row's
    bias: u32,          // where the bias begins in its buffer, in items
    has_bias: u32,      // whether there is a bias, 0 or 1
    add: u32,           // whether out is added to, 0 or 1
    epsilon: f32,       // added to the mean square
}

override CENTRED: bool = false;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<Item>;
@group(0) @binding(3) var<storage, read> weight: array<Item>;
@group(0) @binding(4) var<storage, read> bias: array<Item>;
@group(0) @binding(5) var<storage, read_write> out: array<Item>;

// Item `i` of the group that begins at item `start`, without the mean.
fn centred(start: u32, i: u32, mean: f32) -> Item {
    let value = x[start + i];
    if (CENTRED) {
        return inside(value - mean, i);
    }
    return value;
}

fn store(start: u32, i: u32, group: u32, mean: f32, scale: f32) {
    let at = (group * params.items + i) % params.weight_items;
    var y = centred(start, i, mean) * scale * weight[params.weight + at];
    if (params.has_bias == 1u) {
        y += bias[params.bias + at];
    }
    if (params.add == 1u) {
        y += out[start + i];
    }
    out[start + i] = y;
}
