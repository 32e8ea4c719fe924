// Cache entries of half precision: a quad is two words of two entries, the first low.

alias Quad = vec2<u32>;

fn unpack_quad(quad: Quad) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(quad.x), unpack2x16float(quad.y));
}

fn pack_quad(values: vec4<f32>) -> Quad {
    return vec2<u32>(pack2x16float(values.xy), pack2x16float(values.zw));
}
