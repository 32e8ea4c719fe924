//! Data as words, for threads that share no memory of this program.
//!
//! Both ends are of one build, so nothing is checked: what [`Wire::put`] wrote, [`Wire::take`] reads.

use crate::{
    exec::Allocation,
    ops::{
        Activation, Attention, BufferId, BufferSpec, CacheSpec, CacheType, Embed, Experts,
        GatedMatMul, Lookup, MatMul, Norm, Op, Pairing, RotaryStore, Rotation, Route, Rows,
        SelectRows, ShortConv, WeightId,
    },
    tape::{Step, Tape},
    tensor::{DType, WeightSpec},
};

/// What can be words.
pub trait Wire {
    /// Appends its words.
    fn put(&self, to: &mut Vec<u32>);
    /// Reads it from the first of the words, and leaves the others.
    fn take(from: &mut &[u32]) -> Self;
}

impl Wire for u32 {
    fn put(&self, to: &mut Vec<u32>) {
        to.push(*self);
    }

    fn take(from: &mut &[u32]) -> Self {
        let (first, rest) = from.split_first().expect("the other end wrote it");
        *from = rest;
        *first
    }
}

/// Types that are a word: how they become one, and back.
macro_rules! words {
    ($($type:ty: $put:expr, $take:expr;)*) => {
        $(impl Wire for $type {
            fn put(&self, to: &mut Vec<u32>) {
                let put: fn(&$type) -> u32 = $put;
                put(self).put(to);
            }

            fn take(from: &mut &[u32]) -> Self {
                let take: fn(u32) -> $type = $take;
                take(u32::take(from))
            }
        })*
    };
}

words! {
    usize: |value| *value as u32, |word| word as usize;
    bool: |value| u32::from(*value), |word| word != 0;
    f32: |value| value.to_bits(), f32::from_bits;
    BufferId: |id| id.0 as u32, |word| BufferId(word as usize);
    WeightId: |id| id.0 as u32, |word| WeightId(word as usize);
    DType: |dtype| place(&DType::ALL, dtype), |word| DType::ALL[word as usize];
    Rows: |rows| place(&ROWS, rows), |word| ROWS[word as usize];
    CacheType: |dtype| place(&CACHE_TYPES, dtype), |word| CACHE_TYPES[word as usize];
    Lookup: |lookup| place(&LOOKUPS, lookup), |word| LOOKUPS[word as usize];
    Pairing: |pairing| place(&PAIRINGS, pairing), |word| PAIRINGS[word as usize];
}

const ROWS: [Rows; 2] = [Rows::Tokens, Rows::Outputs];
const CACHE_TYPES: [CacheType; 2] = [CacheType::F32, CacheType::F16];
const LOOKUPS: [Lookup; 2] = [Lookup::Token, Lookup::Position];
const PAIRINGS: [Pairing; 2] = [Pairing::Halves, Pairing::Neighbours];

fn place<T: PartialEq>(all: &[T], value: &T) -> u32 {
    let place = all.iter().position(|item| item == value);
    place.expect("all of them are listed") as u32
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, to: &mut Vec<u32>) {
        self.is_some().put(to);
        if let Some(value) = self {
            value.put(to);
        }
    }

    fn take(from: &mut &[u32]) -> Self {
        bool::take(from).then(|| T::take(from))
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, to: &mut Vec<u32>) {
        self.len().put(to);
        self.iter().for_each(|item| item.put(to));
    }

    fn take(from: &mut &[u32]) -> Self {
        (0..usize::take(from)).map(|_| T::take(from)).collect()
    }
}

impl<T: Wire> Wire for [T; 2] {
    fn put(&self, to: &mut Vec<u32>) {
        self.iter().for_each(|item| item.put(to));
    }

    fn take(from: &mut &[u32]) -> Self {
        [T::take(from), T::take(from)]
    }
}

/// Structures, field by field.
macro_rules! fields {
    ($($type:ident { $($field:ident),* })*) => {
        $(impl Wire for $type {
            fn put(&self, to: &mut Vec<u32>) {
                $(self.$field.put(to);)*
            }

            fn take(from: &mut &[u32]) -> Self {
                Self { $($field: Wire::take(from)),* }
            }
        })*
    };
}

fields! {
    Allocation { weights, groups, cache, sequences, pages_per_sequence }
    CacheSpec { layers, kv_heads, head_dim, conv_layers, conv_width, dtype, page_size, pages }
    Tape { buffers, ops, logits, max_rows, max_outputs }
    Step { tokens, positions, slots, outputs, tables, angles }
    Embed { weight, lookup, scale, add, out }
    Norm { x, groups, centred, weight, bias, epsilon, add, out }
    MatMul { x, weight, bias, scale, activation, residual, out }
    GatedMatMul { x, gate, up, biases, activation, out }
    Route { scores, normalise, out }
    Experts { x, route, experts, gate, up, down, activation, gated, out }
    RotaryStore { q, k, v, rotation, layer, heads }
    Rotation { table, pairing, dims }
    Attention { q, layer, heads, scale, window, cap, out }
    ShortConv { x, weight, bias, taps, layer, out }
    SelectRows { x, out }
}

/// Names are for messages, which the thread that leads writes.
macro_rules! nameless {
    ($($type:ident { $($field:ident),* })*) => {
        $(impl Wire for $type {
            fn put(&self, to: &mut Vec<u32>) {
                $(self.$field.put(to);)*
            }

            fn take(from: &mut &[u32]) -> Self {
                Self { name: String::new(), $($field: Wire::take(from)),* }
            }
        })*
    };
}

nameless! {
    WeightSpec { dtype, rows, columns }
    BufferSpec { rows, columns }
}

/// Enums of one field each, by number.
macro_rules! variants {
    ($type:ident { $($number:literal $variant:ident),* }) => {
        impl Wire for $type {
            fn put(&self, to: &mut Vec<u32>) {
                match self {
                    $(Self::$variant(value) => {
                        to.push($number);
                        value.put(to);
                    })*
                }
            }

            fn take(from: &mut &[u32]) -> Self {
                match u32::take(from) {
                    $($number => Self::$variant(Wire::take(from)),)*
                    other => unreachable!("nobody writes variant {other}"),
                }
            }
        }
    };
}

variants! {
    Op {
        0 Embed, 1 Norm, 2 MatMul, 3 GatedMatMul, 4 Route, 5 Experts, 6 RotaryStore, 7 Attention, 8 ShortConv, 9 SelectRows
    }
}

const ACTIVATIONS: [Activation; 5] = [
    Activation::Silu,
    Activation::Gelu,
    Activation::GeluTanh,
    Activation::Relu,
    Activation::ReluSquared,
];

impl Wire for Activation {
    fn put(&self, to: &mut Vec<u32>) {
        match self {
            Self::SoftCap(cap) => {
                ACTIVATIONS.len().put(to);
                cap.put(to);
            }
            plain => place(&ACTIVATIONS, plain).put(to),
        }
    }

    fn take(from: &mut &[u32]) -> Self {
        match ACTIVATIONS.get(usize::take(from)) {
            Some(&plain) => plain,
            None => Self::SoftCap(f32::take(from)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back<T: Wire>(value: &T) -> T {
        let mut words = Vec::new();
        value.put(&mut words);
        let mut from = &words[..];
        let taken = T::take(&mut from);
        assert_eq!(from, [0; 0], "words are left");
        taken
    }

    fn tape() -> Tape {
        let [a, b, c, d] = [0, 1, 2, 3].map(BufferId);
        let [v, w] = [0, 1].map(WeightId);
        let embed = |lookup, add| Embed {
            weight: w,
            lookup,
            scale: f32::from_bits(0x7f80_0001),
            add,
            out: a,
        };
        let matmul = |activation| MatMul {
            x: a,
            weight: w,
            bias: Some(v),
            scale: -0.0,
            activation,
            residual: Some(c),
            out: b,
        };
        let rotary = |rotation| RotaryStore {
            q: a,
            k: b,
            v: c,
            rotation,
            layer: 7,
            heads: 9,
        };
        let rotation = |pairing| {
            Some(Rotation {
                table: w,
                pairing,
                dims: 6,
            })
        };
        let mut ops = vec![
            Op::Embed(embed(Lookup::Token, true)),
            Op::Embed(embed(Lookup::Position, false)),
            Op::Norm(Norm {
                x: a,
                groups: 3,
                centred: true,
                weight: v,
                bias: None,
                epsilon: 1e-5,
                add: true,
                out: b,
            }),
            Op::MatMul(matmul(None)),
            Op::MatMul(matmul(Some(Activation::SoftCap(30.0)))),
            Op::GatedMatMul(GatedMatMul {
                x: a,
                gate: w,
                up: v,
                biases: [None, Some(v)],
                activation: Activation::GeluTanh,
                out: d,
            }),
            Op::Route(Route {
                scores: b,
                normalise: true,
                out: c,
            }),
            Op::Experts(Experts {
                x: a,
                route: b,
                experts: 5,
                gate: v,
                up: w,
                down: v,
                activation: Activation::Silu,
                gated: c,
                out: d,
            }),
            Op::RotaryStore(rotary(None)),
            Op::RotaryStore(rotary(rotation(Pairing::Halves))),
            Op::RotaryStore(rotary(rotation(Pairing::Neighbours))),
            Op::Attention(Attention {
                q: a,
                layer: 2,
                heads: 4,
                scale: 0.125,
                window: Some(6),
                cap: Some(50.0),
                out: b,
            }),
            Op::ShortConv(ShortConv {
                x: a,
                weight: v,
                bias: Some(w),
                taps: 3,
                layer: 4,
                out: b,
            }),
            Op::SelectRows(SelectRows { x: a, out: b }),
        ];
        ops.extend(ACTIVATIONS.map(|plain| Op::MatMul(matmul(Some(plain)))));
        let buffer = |rows| BufferSpec {
            name: String::new(),
            rows,
            columns: 12,
        };
        Tape {
            buffers: ROWS.map(buffer).to_vec(),
            ops,
            logits: d,
            max_rows: 128,
            max_outputs: 16,
        }
    }

    #[test]
    fn a_tape_comes_back_as_it_was() {
        let (expected, found) = (tape(), back(&tape()));
        // One number is NaN, which equals nothing.
        assert_eq!(format!("{found:?}"), format!("{expected:?}"));
        let Op::Embed(embed) = &found.ops[0] else {
            panic!("{:?}", found.ops[0]);
        };
        assert_eq!(embed.scale.to_bits(), 0x7f80_0001);
    }

    #[test]
    fn an_allocation_and_a_step_come_back_as_they_were() {
        let spec = |dtype| WeightSpec {
            name: String::new(),
            dtype,
            rows: 3,
            columns: 256,
        };
        for dtype in CACHE_TYPES {
            let allocation = Allocation {
                weights: DType::ALL.map(spec).to_vec(),
                groups: vec![0, 1, 8],
                cache: CacheSpec {
                    layers: 1,
                    kv_heads: 2,
                    head_dim: 3,
                    conv_layers: 8,
                    conv_width: 9,
                    dtype,
                    page_size: 4,
                    pages: 5,
                },
                sequences: 6,
                pages_per_sequence: 7,
            };
            let found = back(&allocation);
            assert_eq!(format!("{found:?}"), format!("{allocation:?}"));
        }
        let step = Step {
            tokens: vec![1, 2],
            positions: vec![3, 4],
            slots: vec![0, 1],
            outputs: vec![1],
            tables: vec![vec![5], vec![], vec![6, 7]],
            angles: vec![8],
        };
        assert_eq!(back(&step), step);
    }
}
