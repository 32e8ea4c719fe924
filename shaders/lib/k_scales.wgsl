// Scales and minima of Q4_K and Q5_K: for each 256 values a record of RECORD words. The first has the
// f16 factors of scales, low, and of minima, high; the next four have a byte of scale and a byte of
// minimum for each of the eight blocks of 32. value = d · scale · level − dmin · minimum.

fn scale_and_minimum(at: u32) -> vec2<f32> {
    let record = params.scales + at / 8u * RECORD;
    let factors = unpack2x16float(scales[record]);
    let bytes = scales[record + 1u + at % 8u / 2u] >> (at % 2u * 16u);
    let pair = vec2<i32>(vec2<u32>(bytes, bytes >> 8u) & vec2<u32>(0xffu));
    return vec2<f32>(factors.x, -factors.y) * vec2<f32>(pair);
}
