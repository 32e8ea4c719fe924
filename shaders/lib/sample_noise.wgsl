// Gumbel noise from a counter-based generator: what a token gets depends on seed, sequence, step and id
// alone. Source: Salmon et al. 2011 (Philox4x32-10); Gumbel 1954, Maddison et al. 2014.

// The high and low word of a · b.
fn wide_product(a: u32, b: u32) -> vec2<u32> {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let middle = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let other = (a & 0xffffu) * (b >> 16u) + (middle & 0xffffu);
    return vec2<u32>((a >> 16u) * (b >> 16u) + (middle >> 16u) + (other >> 16u), a * b);
}

fn philox(start: vec4<u32>, seed: vec2<u32>) -> vec4<u32> {
    var counter = start;
    var key = seed;
    for (var i = 0u; i < 10u; i += 1u) {
        let a = wide_product(0xd2511f53u, counter.x);
        let b = wide_product(0xcd9e8d57u, counter.z);
        counter = vec4<u32>(b.x ^ counter.y ^ key.x, b.y, a.x ^ counter.w ^ key.y, a.y);
        key += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
    }
    return counter;
}

// 2 · artanh(s), for |s| ≤ 1/3, to the last bits: ln((1 + s) / (1 − s)).
fn log_ratio(s: f32) -> f32 {
    let t = s * s;
    return 2.0 * s * (1.0 + t * (1.0 / 3.0 + t * (0.2 + t * (1.0 / 7.0 + t * (1.0 / 9.0
        + t * (1.0 / 11.0 + t * (1.0 / 13.0 + t / 15.0)))))));
}

// ln(x) of a normal number above 0. The built-in function may be off by 2⁻²¹ near 1.
fn precise_log(x: f32) -> f32 {
    let bits = bitcast<u32>(x) - 0x3f3504f3u; // that of √½, so that the mantissa is in [√½, √2)
    let exponent = bitcast<i32>(bits) >> 23u;
    let mantissa = bitcast<f32>((bits & 0x7fffffu) + 0x3f3504f3u);
    return f32(exponent) * 0.69314718 + log_ratio((mantissa - 1.0) / (mantissa + 1.0));
}

// −ln(−ln u) with u the middle of cell `bits` of 2³² in (0, 1). Above ½, −ln u is that of 1 − (1 − u),
// whose small 1 − u single precision holds where u would be 1.
fn gumbel(bits: u32) -> f32 {
    var exponential: f32;
    if (bits < 0x80000000u) {
        exponential = -precise_log((f32(bits) + 0.5) * 0x1p-32);
    } else {
        let rest = (f32(0xffffffffu - bits) + 0.5) * 0x1p-32;
        exponential = log_ratio(rest / (2.0 - rest));
    }
    return -precise_log(exponential);
}

fn noise(id: u32, row: u32) -> f32 {
    let counter = vec4<u32>(id / 4u, rows[row + NEW_TOKENS], rows[row + SEQUENCE], 0u);
    return gumbel(philox(counter, vec2<u32>(plan[SEED], plan[SEED + 1u]))[id % 4u]);
}
