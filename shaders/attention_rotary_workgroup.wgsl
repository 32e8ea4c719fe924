// Rotary embedding, storing and attention in one (lib/attention_rotary.wgsl), by workgroups
// (lib/attention_shared.wgsl). attention_merge.wgsl joins the parts.

fn query(vector: u32, quad: u32) -> vec4<f32> {
    let row = row_of(vector);
    return rotated(row * params.stride + head_of(vector) * params.quads, quad, turn_of(row));
}

// The row that attends: alone in its sequence.
fn own_row() -> u32 {
    return row_of(run.w - 1u);
}

// Whether this is its own position, whose key and value are in no cache yet, or one after it, which nobody sees.
fn is_own(position: u32) -> bool {
    return position + 1u >= run.z;
}

// Whether what is the row's own is to be stored here: once for each key-value head.
fn stores(position: u32) -> bool {
    return position + 1u == run.z && own_row() * shared_by() >= first_vector;
}

// Quad `quad` of the key, or the value, that begins at quad `at` of the cache.
fn key(at: u32, quad: u32, position: u32) -> Quad {
    if (!is_own(position)) {
        return keys[at + quad];
    }
    let row = own_row();
    let own = pack_quad(rotated(row * params.stride + params.k_at + kv_head * params.quads, quad, turn_of(row)));
    if (stores(position)) {
        keys[at + quad] = own;
    }
    return own;
}

fn value(at: u32, quad: u32, position: u32) -> Quad {
    if (!is_own(position)) {
        return values[at + quad];
    }
    let own = pack_quad(qkv[own_row() * params.stride + params.v_at + kv_head * params.quads + quad]);
    if (stores(position)) {
        values[at + quad] = own;
    }
    return own;
}
