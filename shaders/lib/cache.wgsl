// Where a position's entry is. A page holds page_size entries, an entry kv_heads · quads quads: every
// head begins at a whole quad, and what lies past its head_dim values is zero.

fn entry_of(slot: u32, position: u32) -> u32 {
    let page = step[params.tables + slot * params.pages + position / params.page_size];
    return page * params.page_size + position % params.page_size;
}
