// out[row] = weight · x[row], for many rows; an invocation owns OUTPUTS neighbouring outputs of a strip of rows.
//
// The converse of matmul_tile.wgsl: a chunk of the weight stays in a private array, dequantised once, while the
// rows of x pass by. All invocations need the same values of x, so each of eight loads one quad of a block, and
// the subgroup broadcasts them. Subgroups are whole and have eight invocations or more.
// Workgroups (x, y) share the outputs along x and the rows along y. x and out are read by whole quads: what
// lies past the last output is zero and stays so.

const OUTPUTS: u32 = 8u;
const CHUNK: u32 = 6u; // blocks
override LANES: u32 = 8u;

@group(0) @binding(6) var<storage, read> residual: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> out: array<vec4<f32>>;

var<private> chunk: array<array<array<vec4<f32>, 8>, CHUNK>, OUTPUTS>;
var<private> sums: mat2x4<f32>;

// Puts a block of row `row` of the weight at the end of output `number`'s chunk; the others move up, because
// an array is in registers only where every index is constant.
fn append(number: u32, row: u32, block: u32) {
    chunk[number][0] = chunk[number][1];
    chunk[number][1] = chunk[number][2];
    chunk[number][2] = chunk[number][3];
    chunk[number][3] = chunk[number][4];
    chunk[number][4] = chunk[number][5];
    let scale = block_scale(row, block);
    let w = block_quants(row, block);
    chunk[number][5] = array<vec4<f32>, 8>(
        w[0] * (scale.x * place(0u)) + scale.y, w[1] * (scale.x * place(1u)) + scale.y,
        w[2] * (scale.x * place(2u)) + scale.y, w[3] * (scale.x * place(3u)) + scale.y,
        w[4] * (scale.x * place(4u)) + scale.y, w[5] * (scale.x * place(5u)) + scale.y,
        w[6] * (scale.x * place(6u)) + scale.y, w[7] * (scale.x * place(7u)) + scale.y);
}

// Adds the products of a quad of x with quad `i` of block `number` of the chunk.
fn add_products(quad: vec4<f32>, number: u32, i: u32) {
    sums += mat2x4<f32>(
        dot(quad, chunk[0][number][i]), dot(quad, chunk[1][number][i]),
        dot(quad, chunk[2][number][i]), dot(quad, chunk[3][number][i]),
        dot(quad, chunk[4][number][i]), dot(quad, chunk[5][number][i]),
        dot(quad, chunk[6][number][i]), dot(quad, chunk[7][number][i]));
}

// Adds the products of a block of x with block `number` of the chunk. `quads` are the block's quads, one to
// each of eight invocations.
fn add_block(quads: vec4<f32>, number: u32) {
    add_products(subgroupBroadcast(quads, 0u), number, 0u);
    add_products(subgroupBroadcast(quads, 1u), number, 1u);
    add_products(subgroupBroadcast(quads, 2u), number, 2u);
    add_products(subgroupBroadcast(quads, 3u), number, 3u);
    add_products(subgroupBroadcast(quads, 4u), number, 4u);
    add_products(subgroupBroadcast(quads, 5u), number, 5u);
    add_products(subgroupBroadcast(quads, 6u), number, 6u);
    add_products(subgroupBroadcast(quads, 7u), number, 7u);
}

// Where the quad of `out` is that holds output `output` of a row.
fn quad_at(row: u32, output: u32) -> u32 {
    return (row * params.out_stride + params.first + output) / 4u;
}

// Adds the chunk's products with a row of x to four outputs.
fn add_to_out(products: vec4<f32>, row: u32, output: u32, block: u32) {
    if (output < params.outputs) {
        let at = quad_at(row, output);
        var sum = early_scale() * products;
        if (block > 0u || params.join == ADD_OUT) {
            sum += out[at];
        }
        let columns = vec4<u32>(output, output + 1u, output + 2u, output + 3u);
        out[at] = select(vec4<f32>(), sum, columns < vec4<u32>(params.outputs));
    }
}

// Completes four outputs, which hold their whole sums.
fn finish(row: u32, output: u32) {
    if (output < params.outputs) {
        let at = quad_at(row, output);
        var y = out[at];
        if (params.has_bias == 1u) {
            let columns = min(vec4<u32>(output, output + 1u, output + 2u, output + 3u), vec4<u32>(params.outputs - 1u));
            let places = params.bias + params.first + columns;
            y += early_scale() * vec4<f32>(bias[places.x], bias[places.y], bias[places.z], bias[places.w]);
        }
        if (params.join != ADD_OUT) {
            y *= params.scale;
        }
        if (params.join == ADD_RESIDUAL) {
            y += residual[at];
        } else if (params.join == GATE_RESIDUAL) {
            let gate = residual[at];
            y *= vec4<f32>(activate(gate.x), activate(gate.y), activate(gate.z), activate(gate.w));
        } else if (params.join != ADD_OUT) {
            y = vec4<f32>(activate(y.x), activate(y.y), activate(y.z), activate(y.w));
        }
        let columns = vec4<u32>(output, output + 1u, output + 2u, output + 3u);
        out[at] = select(vec4<f32>(), y, columns < vec4<u32>(params.outputs));
    }
}

// The chunk's products with a row of x, whose quads of the chunk begin at `at` + `own` for this invocation.
fn multiply(row: u32, output: u32, block: u32, own: u32) {
    let last = params.blocks - 1u;
    let at = row * (params.x_stride / 4u) + block * 8u + own;
    // Past the last block, x is zero and weights repeat.
    let quads = array<vec4<f32>, CHUNK>(
        x[at], select(vec4<f32>(), x[at + 8u], block + 1u <= last),
        select(vec4<f32>(), x[at + 16u], block + 2u <= last), select(vec4<f32>(), x[at + 24u], block + 3u <= last),
        select(vec4<f32>(), x[at + 32u], block + 4u <= last), select(vec4<f32>(), x[at + 40u], block + 5u <= last));
    sums = mat2x4<f32>();
    add_block(quads[0], 0u);
    add_block(quads[1], 1u);
    add_block(quads[2], 2u);
    add_block(quads[3], 3u);
    add_block(quads[4], 4u);
    add_block(quads[5], 5u);
    add_to_out(sums[0], row, output, block);
    add_to_out(sums[1], row, output + 4u, block);
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_invocation_id) invocation: u32,
) {
    params = given;
    let strip = (step[params.rows_at] + groups.y - 1u) / groups.y;
    let end = min(group.y * strip + strip, step[params.rows_at]);
    let all = LANES * OUTPUTS;
    let last_row = params.outputs - 1u;
    for (var first = group.x * all; first < params.outputs; first += groups.x * all) {
        let output = first + lane * OUTPUTS;
        for (var block = 0u; block < params.blocks; block += CHUNK) {
            for (var at = block; at < block + CHUNK; at += 1u) {
                let next = min(at, params.blocks - 1u);
                append(0u, min(output, last_row), next);
                append(1u, min(output + 1u, last_row), next);
                append(2u, min(output + 2u, last_row), next);
                append(3u, min(output + 3u, last_row), next);
                append(4u, min(output + 4u, last_row), next);
                append(5u, min(output + 5u, last_row), next);
                append(6u, min(output + 6u, last_row), next);
                append(7u, min(output + 7u, last_row), next);
            }
            for (var row = group.y * strip; row < end; row += 1u) {
                multiply(row, output, block, invocation % 8u);
            }
        }
        if (unfinished()) {
            for (var row = group.y * strip; row < end; row += 1u) {
                finish(row, output);
                finish(row, output + 4u);
            }
        }
    }
}
