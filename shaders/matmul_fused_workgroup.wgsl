// Normalisation, products and gating in one (lib/matmul_fused.wgsl), for few rows on a real GPU; a
// workgroup owns OUTPUTS outputs of one row.
//
// The plan of matmul_workgroup.wgsl: neighbouring invocations read neighbouring octets of the weight, and
// partial sums, those of the squares of x among them, are added in workgroup memory. LANES is a power of
// two.

const OUTPUTS: u32 = 4u;
override LANES: u32 = 64u;

@group(0) @binding(8) var<storage, read_write> out: array<f32>;

var<workgroup> partial: array<vec4<f32>, LANES>;
var<workgroup> partial_gates: array<vec4<f32>, LANES>;
var<workgroup> partial_squares: array<f32, LANES>;

// An octet of the rows `r` of the weight times two quads.
fn products(r: vec4<u32>, block: u32, octet: u32, quads: mat2x4<f32>) -> vec4<f32> {
    let a = octet_values(r.x, block, octet);
    let b = octet_values(r.y, block, octet);
    let c = octet_values(r.z, block, octet);
    let d = octet_values(r.w, block, octet);
    return vec4<f32>(
        dot(a[0], quads[0]) + dot(a[1], quads[1]), dot(b[0], quads[0]) + dot(b[1], quads[1]),
        dot(c[0], quads[0]) + dot(c[1], quads[1]), dot(d[0], quads[0]) + dot(d[1], quads[1]));
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    params = given;
    let tiles = (params.outputs + OUTPUTS - 1u) / OUTPUTS;
    let index = group.y * groups.x + group.x;
    let row = index / tiles;
    let output = index % tiles * OUTPUTS;
    let inside = row < step[params.rows_at];

    let last = params.outputs - 1u;
    let r = min(vec4<u32>(output, output + 1u, output + 2u, output + 3u), vec4<u32>(last));
    let x_row = row * (params.x_stride / 4u);
    let octets = select(0u, params.blocks * 4u, inside);
    var sum = vec4<f32>();
    var gates = vec4<f32>();
    var squares = 0.0;
    for (var at = lane; at < octets; at += LANES) {
        let block = at / 4u;
        let octet = at % 4u;
        let columns = block * 8u + octet_columns(octet);
        var quads = mat2x4<f32>(x[x_row + columns.x], x[x_row + columns.y]);
        if (NORMED) {
            squares += dot(quads[0], quads[0]) + dot(quads[1], quads[1]);
            quads = mat2x4<f32>(quads[0] * gain_quad(columns.x), quads[1] * gain_quad(columns.y));
        }
        if (GATED) {
            gates += products(r, block, octet, quads);
            sum += products(r + params.outputs, block, octet, quads);
        } else {
            sum += products(r, block, octet, quads);
        }
    }
    partial[lane] = sum;
    partial_gates[lane] = gates;
    partial_squares[lane] = squares;
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (lane < half) {
            partial[lane] += partial[lane + half];
            if (GATED) {
                partial_gates[lane] += partial_gates[lane + half];
            }
            if (NORMED) {
                partial_squares[lane] += partial_squares[lane + half];
            }
        }
    }
    workgroupBarrier();
    if (lane < OUTPUTS && output + lane <= last && inside) {
        let norm = norm_of(partial_squares[0]);
        let column = params.first + output + lane;
        out[row * params.out_stride + column] =
            result(column, norm * partial[0][lane], norm * partial_gates[0][lane]);
    }
}
