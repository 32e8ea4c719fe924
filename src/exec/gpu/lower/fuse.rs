//! Operations that run together: which neighbours on a tape have a joint form, and that form.
//!
//! Three patterns, all for few rows: a normalisation and the product that reads it; the same with a gated
//! product; and the first half of a layer, from the normalisation to attention, in three dispatches. And a
//! convolution by itself, whose joint form is for rows that do not need each other. What matches none runs by itself, as everything does for many rows. A pattern matches only where nobody
//! else reads what it leaves out.

use super::{
    super::{
        dispatch::{
            Alternative, Class, Dispatch, Fused, Grid, Operation, Piece, Slot, quads, stride,
        },
        forms::{self, SPLITS},
        fused_kernels::{ATTENTION_ROTARY, ATTENTION_ROTARY_WORKGROUP},
        matmul_forms,
        params::{AttentionRotaryParams, Params},
        pipelines::Variant,
        placement::{Part, Place, Placed, ROW_STEP},
    },
    Lowering,
    attention::window,
    fused_product::Product,
};
use crate::{
    error::Result,
    ops::{
        Attention, BufferId, GatedMatMul, MatMul, Norm, Op, Pairing, RotaryStore, Rows, WeightId,
    },
    tensor::packed_len,
};

impl Lowering<'_> {
    /// The operations of the whole tape in order, together where `fuse` allows it and they can be.
    pub fn pieces(&self, fuse: bool) -> Result<Vec<Piece>> {
        let ops = &self.tape.ops;
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < ops.len() {
            let found = match fuse {
                true => self.fused(at)?,
                false => None,
            };
            let (count, fused) = found.map_or((1, None), |(count, fused)| (count, Some(fused)));
            let separate = ops[at..at + count].iter().map(|op| self.op(op));
            pieces.push(Piece {
                separate: separate.collect::<Result<_>>()?,
                fused,
            });
            at += count;
        }
        Ok(pieces)
    }

    /// Bytes of the activations that fused operations write together.
    pub fn joined_bytes(&self, pieces: &[Piece]) -> u64 {
        let width = |op: &Op| match op {
            Op::RotaryStore(op) => self.width(op.q) + self.width(op.k) + self.width(op.v),
            _ => 0,
        };
        let widest = self.tape.ops.iter().map(width).max().unwrap_or(0);
        match pieces.iter().any(|piece| piece.fused.is_some()) {
            true => (matmul_forms::fused_rows(self.adapter) * stride(widest) * 4) as u64,
            false => 0,
        }
    }

    /// A joint form of the operations from `at` on, and how many they are.
    fn fused(&self, at: usize) -> Result<Option<(usize, Fused)>> {
        let ops = &self.tape.ops[at..];
        let dead = |buffer: BufferId, count: usize| self.dead(buffer, at + count);
        match ops {
            [
                Op::Norm(norm),
                Op::MatMul(q),
                Op::MatMul(k),
                Op::MatMul(v),
                Op::RotaryStore(store),
                Op::Attention(attention),
                ..,
            ] if self.is_plain(norm)
                && [q, k, v].iter().all(|op| self.follows(norm, op))
                && [q.out, k.out, v.out] == [store.q, store.k, store.v]
                && (attention.q, attention.layer) == (store.q, store.layer)
                && [norm.out, q.out, k.out, v.out].iter().all(|&b| dead(b, 6)) =>
            {
                let fused = self.attention_block(norm, [q, k, v], store, attention)?;
                if let Some(operations) = fused {
                    return Ok(Some((6, self.for_few_rows(operations, true))));
                }
                Ok(None)
            }
            [Op::Norm(norm), Op::GatedMatMul(gated), ..]
                if self.is_plain(norm) && gated.x == norm.out && dead(norm.out, 2) =>
            {
                let fused = self.gated(Some(norm), gated)?;
                Ok(fused.map(|operation| (2, self.for_few_rows(vec![operation], false))))
            }
            [Op::GatedMatMul(gated), ..] => {
                let fused = self.gated(None, gated)?;
                Ok(fused.map(|operation| (1, self.for_few_rows(vec![operation], false))))
            }
            [Op::Norm(norm), Op::MatMul(op), ..]
                if self.is_plain(norm) && self.follows(norm, op) && dead(norm.out, 2) =>
            {
                let operation = self.fused_product(&Product {
                    x: norm.x,
                    norm: Some(norm),
                    weight: &self.placed[op.weight.0],
                    gated: false,
                    bias: op.bias.map(|bias| self.only_place(bias)).transpose()?,
                    scale: op.scale,
                    activation: op.activation,
                    out: Slot::Activation(op.out),
                    out_columns: self.width(op.out),
                })?;
                Ok(Some((2, self.for_few_rows(vec![operation], false))))
            }
            [Op::ShortConv(op), ..] => {
                let operation = self.short_conv_alone(op)?;
                Ok(Some((1, self.for_few_rows(vec![operation], true))))
            }
            _ => Ok(None),
        }
    }

    fn for_few_rows(&self, operations: Vec<Operation>, alone: bool) -> Fused {
        Fused {
            operations,
            most: matmul_forms::fused_rows(self.adapter),
            alone,
        }
    }

    /// Whether `norm` is the root mean square of whole rows.
    fn is_plain(&self, norm: &Norm) -> bool {
        norm.groups == 1 && !norm.centred && norm.bias.is_none() && !norm.add && norm.x != norm.out
    }

    /// Whether `op` is nothing but a product of what `norm` makes.
    fn follows(&self, norm: &Norm, op: &MatMul) -> bool {
        op.x == norm.out && op.residual.is_none() && op.out != norm.x
    }

    /// Whether what `buffer` holds before operation `from` is never read again.
    fn dead(&self, buffer: BufferId, from: usize) -> bool {
        let next = self.tape.ops[from..]
            .iter()
            .find(|op| op.reads(buffer) || op.out() == buffer);
        match next {
            Some(op) => !op.reads(buffer),
            None => buffer != self.tape.logits,
        }
    }

    fn width(&self, buffer: BufferId) -> usize {
        self.tape.buffers[buffer.0].columns
    }

    /// Normalisation and the products q, k and v at once, then rotary embedding, storing and attention.
    fn attention_block(
        &self,
        norm: &Norm,
        products: [&MatMul; 3],
        store: &RotaryStore,
        op: &Attention,
    ) -> Result<Option<Vec<Operation>>> {
        let cache = self.cache;
        let plain = |op: &&MatMul| op.scale == 1.0 && op.activation.is_none();
        let dims = store.rotation.map_or(0, |rotation| rotation.dims);
        let (weights, biases) = (products.map(|op| op.weight), products.map(|op| op.bias));
        let Some(weight) = self.joined(&weights) else {
            return Ok(None);
        };
        let bias = match biases {
            [None, None, None] => None,
            [Some(q), Some(k), Some(v)] => match self.joined_vectors(&[q, k, v])? {
                Some(place) => Some(place),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let neighbours = store.rotation.map(|rotation| rotation.pairing);
        let neighbours = f64::from(neighbours == Some(Pairing::Neighbours));
        let overrides = vec![("NEIGHBOURS", neighbours)];
        let kernels = &ATTENTION_ROTARY;
        let split =
            forms::attention_split(self.adapter, &cache, op.heads, kernels, overrides.clone());
        let kernels = &ATTENTION_ROTARY_WORKGROUP;
        let workgroup = forms::attention_workgroup(&cache, op.heads, kernels, overrides);
        let (Some(split), Some(workgroup)) = (split, workgroup) else {
            return Ok(None);
        };
        if !products.iter().all(plain) || !dims.is_multiple_of(8) {
            return Ok(None);
        }
        let widths = products.map(|op| self.width(op.out));
        let total = widths.iter().sum();
        let joint = self.fused_product(&Product {
            x: norm.x,
            norm: Some(norm),
            weight: &weight,
            gated: false,
            bias,
            scale: 1.0,
            activation: None,
            out: Slot::Joined,
            out_columns: total,
        })?;
        let table = store.rotation.map(|rotation| self.angles(&rotation));
        let table = table.transpose()?;
        let dispatch = |(variant, grid): (Variant, Grid)| Dispatch {
            variant,
            params: AttentionRotaryParams {
                positions: self.layout.positions() as u32,
                slots: self.layout.slots() as u32,
                angles: self.layout.angles() as u32,
                tables: self.layout.tables() as u32,
                pages: self.layout.pages as u32,
                page_size: cache.page_size as u32,
                heads: op.heads as u32,
                kv_heads: cache.kv_heads as u32,
                quads: quads(&cache) as u32,
                rotary_dims: dims as u32,
                table: table.map_or(0, |table| table.word as u32 / 2),
                stride: stride(total) as u32 / 4,
                k_at: widths[0] as u32 / 4,
                v_at: (widths[0] + widths[1]) as u32 / 4,
                splits: SPLITS as u32,
                window: window(op),
                scale: op.scale,
                cap: op.cap.unwrap_or(0.0),
            }
            .words(),
            slots: vec![
                (1, Slot::Step),
                (2, Slot::Joined),
                (
                    3,
                    table.map_or(Slot::Nothing, |table| Slot::Weights(table.buffer)),
                ),
                (4, Slot::Keys(op.layer)),
                (5, Slot::Values(op.layer)),
                (6, Slot::Scratch),
            ],
            grid,
        };
        // They write to the cache, so neither is measured.
        let software = self.adapter.software;
        let alternatives = [
            ("attention_rotary_workgroup", !software, workgroup),
            ("attention_rotary", software, split),
        ];
        let alternatives = alternatives.map(|(name, promising, [split, merge])| Alternative {
            name,
            about: String::new(),
            promising,
            probe: Vec::new(),
            dispatches: vec![dispatch(split), self.attention_merge(op, merge)],
        });
        let mut alternatives = Vec::from(alternatives);
        alternatives.sort_by_key(|way| !way.promising);
        let attention = Operation {
            rows: Rows::Tokens,
            classes: vec![Class {
                from: 1,
                alternatives,
            }],
        };
        Ok(Some(vec![joint, attention]))
    }

    fn gated(&self, norm: Option<&Norm>, op: &GatedMatMul) -> Result<Option<Operation>> {
        let x = norm.map_or(op.x, |norm| norm.x);
        let (true, Some(weight)) = (
            op.biases == [None, None] && x != op.out,
            self.joined(&[op.gate, op.up]),
        ) else {
            return Ok(None);
        };
        let operation = self.fused_product(&Product {
            x,
            norm,
            weight: &weight,
            gated: true,
            bias: None,
            scale: 1.0,
            activation: Some(op.activation),
            out: Slot::Activation(op.out),
            out_columns: self.width(op.out),
        })?;
        Ok(Some(operation))
    }

    /// The rows of all matrices as those of one, if they lie one after another.
    fn joined(&self, matrices: &[WeightId]) -> Option<Placed> {
        let first = &self.placed[matrices[0].0];
        let mut joined = Part {
            rows: 0,
            ..first.parts.first()?.clone()
        };
        for matrix in matrices {
            let next = &self.placed[matrix.0];
            let [part] = &*next.parts else { return None };
            let blocks = joined.rows * next.columns / next.dtype.block_len();
            let (quants, scales) = packed_len(next.dtype, blocks);
            let alike = (next.dtype, next.columns) == (first.dtype, first.columns);
            // As in one matrix, every row begins at an even block and a whole vector.
            let even = joined.rows.is_multiple_of(ROW_STEP);
            let follows = part.quants == after(joined.quants, quants)
                && (scales == 0 || part.scales == after(joined.scales, scales));
            if !(alike && even && (follows || joined.rows == 0)) {
                return None;
            }
            joined.rows += part.rows;
        }
        Some(Placed {
            dtype: first.dtype,
            columns: first.columns,
            stripe: first.stripe,
            parts: vec![joined],
        })
    }

    /// Where the first of these vectors lies, if the others lie behind it.
    fn joined_vectors(&self, vectors: &[WeightId]) -> Result<Option<Place>> {
        let first = self.only_place(vectors[0])?;
        let mut next = first;
        for vector in vectors {
            if self.only_place(*vector)? != next {
                return Ok(None);
            }
            next = after(next, self.placed[vector.0].columns);
        }
        Ok(Some(first))
    }
}

/// The place `words` words behind `place`.
fn after(place: Place, words: usize) -> Place {
    Place {
        word: place.word + words,
        ..place
    }
}
