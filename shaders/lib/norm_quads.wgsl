// Items of four values. Past the end of a row x, weight and bias are zero.

alias Item = vec4<f32>;

fn total(item: Item) -> f32 {
    return dot(item, vec4<f32>(1.0));
}

fn square(item: Item) -> f32 {
    return dot(item, item);
}

// Zero for what lies past the end of the group.
fn inside(item: Item, i: u32) -> Item {
    return select(vec4<f32>(), item, vec4<u32>(i * 4u) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(params.size));
}
