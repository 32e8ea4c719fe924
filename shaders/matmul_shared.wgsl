// out[row] = weight · x[row], for many rows on a real GPU; a workgroup owns SIDE outputs of SIDE rows.
//
// Block by block of columns, the workgroup puts its rows of x and of the weight, dequantised once for all rows,
// into workgroup memory; an invocation multiplies eight rows by four outputs, whose sums are in registers. A quad
// of columns is then 12 loads from workgroup memory for 128 multiply-adds; more sums would need fewer loads, and
// more registers than many GPUs give to an invocation when all their threads are to be busy.

const SIDE: u32 = 64u;
const ACROSS: u32 = 16u; // invocations side by side along the outputs
const DOWN: u32 = 8u;    // and along the rows
const LANES: u32 = ACROSS * DOWN;
const WEIGHT: u32 = 8u * SIDE; // where the weight begins in `tile`

// A block of SIDE rows of x, then of the weight: 16 KiB, all that there is to count on. Quad by quad, so that
// neighbours that read neighbouring rows meet no bank twice; where in a quad's rows a row lies is turned by the
// quad's number, so that neighbours that store a row's quads do not either.
var<workgroup> tile: array<vec4<f32>, 2 * WEIGHT>;

// The sums of four outputs, ACROSS apart, of eight rows, DOWN apart. Every index is constant.
var<private> sums: array<vec4<f32>, 8>;

fn place_of(quad: u32, row: u32) -> u32 {
    return quad * SIDE + (row ^ quad);
}

// Puts a block of the rows from `row` and of the outputs from `output` into the tile. What lies past the last
// repeats it.
fn load(row: u32, rows: u32, output: u32, block: u32, lane: u32) {
    // Neighbours read neighbouring quads of a row.
    for (var i = lane; i < 8u * SIDE; i += LANES) {
        let own = min(row + i / 8u, rows - 1u);
        tile[place_of(i % 8u, i / 8u)] = x[own * (params.x_stride / 4u) + block * 8u + i % 8u];
    }
    for (var i = lane; i < 4u * SIDE; i += LANES) {
        let values = octet_values(min(output + i / 4u, params.outputs - 1u), block, i % 4u);
        let quads = octet_columns(i % 4u);
        tile[WEIGHT + place_of(quads.x, i / 4u)] = values[0];
        tile[WEIGHT + place_of(quads.y, i / 4u)] = values[1];
    }
}

fn multiply(quad: u32, across: u32, down: u32, upper: bool) {
    let at = WEIGHT + place_of(quad, across);
    let w = transpose(mat4x4<f32>(tile[at], tile[at + ACROSS], tile[at + 2u * ACROSS], tile[at + 3u * ACROSS]));
    let own = place_of(quad, down);
    sums[0] = add_products(sums[0], w, tile[own]);
    sums[1] = add_products(sums[1], w, tile[own + DOWN]);
    sums[2] = add_products(sums[2], w, tile[own + 2u * DOWN]);
    sums[3] = add_products(sums[3], w, tile[own + 3u * DOWN]);
    if (upper) {
        sums[4] = add_products(sums[4], w, tile[own + 4u * DOWN]);
        sums[5] = add_products(sums[5], w, tile[own + 5u * DOWN]);
        sums[6] = add_products(sums[6], w, tile[own + 6u * DOWN]);
        sums[7] = add_products(sums[7], w, tile[own + 7u * DOWN]);
    }
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    params = given;
    let rows = step[params.rows_at];
    // Neighbouring workgroups share their outputs, so that the weight comes from memory once.
    let deep = (rows + SIDE - 1u) / SIDE;
    let index = group.y * groups.x + group.x;
    let first_row = index % deep * SIDE;
    let first_output = index / deep * SIDE;
    let across = lane % ACROSS;
    let down = lane / ACROSS;
    // A last tile of few rows is half the work.
    let upper = first_row + SIDE / 2u < rows;
    // Browsers must see that all invocations pass as many barriers: `given` is the same for all of them.
    for (var block = 0u; block < given.blocks; block += 1u) {
        workgroupBarrier();
        load(first_row, rows, first_output, block, lane);
        workgroupBarrier();
        for (var quad = 0u; quad < 8u; quad += 1u) {
            multiply(quad, across, down, upper);
        }
    }
    // Through the tile, because there an index need not be constant: what joins `out` would be long eight times.
    workgroupBarrier();
    tile[lane] = sums[0];
    tile[lane + LANES] = sums[1];
    tile[lane + 2u * LANES] = sums[2];
    tile[lane + 3u * LANES] = sums[3];
    tile[lane + 4u * LANES] = sums[4];
    tile[lane + 5u * LANES] = sums[5];
    tile[lane + 6u * LANES] = sums[6];
    tile[lane + 7u * LANES] = sums[7];
    for (var i = 0u; i < 32u; i += 1u) {
        let row = first_row + down + i / 4u * DOWN;
        let output = first_output + across + i % 4u * ACROSS;
        if (row < rows && output < params.outputs) {
            join(row, output, tile[i / 4u * LANES + lane][i % 4u]);
        }
    }
}
