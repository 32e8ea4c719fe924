// What the forms of RMS normalisation share. Vectors are in quads of four values.

struct Params {
    rows_at: u32,       // the step's word that holds the number of rows
    columns: u32,       // values in a row
    stride: u32,        // values from row to row of x and out, a multiple of 8
    weight: u32,        // where the weight begins in its buffer, in quads
    epsilon: f32,       // added to the mean square
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>;
