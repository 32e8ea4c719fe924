// Items of one value, for groups that are no whole quads.

alias Item = f32;

fn total(item: Item) -> f32 {
    return item;
}

fn square(item: Item) -> f32 {
    return item * item;
}

// Groups end with a whole item.
fn inside(item: Item, i: u32) -> Item {
    return item;
}
