// Cache entries of single precision: a quad is four words.

alias Quad = vec4<f32>;

fn unpack_quad(quad: Quad) -> vec4<f32> {
    return quad;
}

fn pack_quad(values: vec4<f32>) -> Quad {
    return values;
}
