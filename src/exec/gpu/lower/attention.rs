//! Rotary embedding with storing, and attention over the cache.

use super::{
    super::{
        dispatch::{Alternative, Class, Dispatch, Grid, Operation, Slot, quads},
        forms::{self, SPLITS},
        kernels,
        matmul_forms::WIDE_ROWS,
        params::{AttentionMergeParams, AttentionParams, Params, RotaryStoreParams},
        pipelines::Variant,
        placement::Place,
    },
    Lowering, only,
};
use crate::{
    error::{Error, Result},
    ops::{Attention, Pairing, RotaryStore, Rotation, Rows},
    tensor::DType,
};

impl Lowering<'_> {
    pub(super) fn rotary_store(&self, op: &RotaryStore) -> Result<Operation> {
        let cache = self.cache;
        let table = op.rotation.map(|rotation| self.angles(&rotation));
        let table = table.transpose()?;
        let quads = quads(&cache);
        let dims = op.rotation.map_or(0, |rotation| rotation.dims);
        let items = op.heads * (dims / 2) + cache.kv_heads * quads;
        let pairing = op.rotation.map(|rotation| rotation.pairing);
        let neighbours = f64::from(pairing == Some(Pairing::Neighbours));
        let kernel = kernels::ROTARY_STORE.of(cache.dtype);
        let (variant, grid) = forms::by_items(kernel, vec![("NEIGHBOURS", neighbours)], items);
        let dispatch = Dispatch {
            variant,
            params: RotaryStoreParams {
                positions: self.layout.positions() as u32,
                slots: self.layout.slots() as u32,
                angles: self.layout.angles() as u32,
                tables: self.layout.tables() as u32,
                pages: self.layout.pages as u32,
                page_size: cache.page_size as u32,
                heads: op.heads as u32,
                kv_heads: cache.kv_heads as u32,
                head_dim: cache.head_dim as u32,
                quads: quads as u32,
                rotary_dims: dims as u32,
                table: table.map_or(0, |table| table.word as u32),
                q_stride: self.stride(op.q),
                kv_stride: self.stride(op.k),
            }
            .words(),
            slots: vec![
                (1, Slot::Step),
                (2, Slot::Activation(op.q)),
                (3, Slot::Activation(op.k)),
                (4, Slot::Activation(op.v)),
                (
                    5,
                    table.map_or(Slot::Nothing, |table| Slot::Weights(table.buffer)),
                ),
                (6, Slot::Keys(op.layer)),
                (7, Slot::Values(op.layer)),
            ],
            grid,
        };
        Ok(only("rotary_store", Rows::Tokens, vec![dispatch]))
    }

    /// Where a table of angles lies.
    pub(super) fn angles(&self, rotation: &Rotation) -> Result<Place> {
        if self.placed[rotation.table.0].dtype != DType::F32 {
            let name = &self.specs[rotation.table.0].name;
            return Err(Error::internal(format!(
                "{name}: a table of angles must be F32"
            )));
        }
        self.only_place(rotation.table)
    }

    pub(super) fn attention(&self, op: &Attention) -> Result<Operation> {
        self.distinct(op.q, op.out)?;
        let cache = self.cache;
        let alternative = |name, promising, dispatches: &[Dispatch]| Alternative {
            name,
            about: format!(
                "attention of {} heads of {} values",
                op.heads, cache.head_dim
            ),
            promising,
            probe: dispatches.to_vec(),
            dispatches: dispatches.to_vec(),
        };
        let kernels = &kernels::ATTENTION_SPLIT;
        let split = forms::attention_split(self.adapter, &cache, op.heads, kernels, vec![]);
        let split = split.map(|forms| self.attention_parts(op, forms));
        let kernels = &kernels::ATTENTION_WORKGROUP;
        let workgroup = forms::attention_workgroup(&cache, op.heads, kernels, vec![]);
        let workgroup = workgroup.map(|forms| self.attention_parts(op, forms));
        let out = Slot::Activation(op.out);
        let broadcast = forms::attention_broadcast(self.adapter, &cache, op.heads);
        let broadcast = broadcast.map(|form| [self.attention_dispatch(op, form, out)]);
        let whole = forms::attention(self.adapter, &cache, op.heads);
        let whole = [self.attention_dispatch(op, whole, out)];
        let class = |from| {
            let gpu = !self.adapter.software;
            // Software adapters compute faster than they load.
            let together = !gpu && from >= WIDE_ROWS && broadcast.is_some();
            let mut alternatives = Vec::new();
            if let Some(workgroup) = &workgroup {
                alternatives.push(alternative("attention_workgroup", gpu, workgroup));
            }
            if let Some(split) = &split {
                alternatives.push(alternative("attention_split", !together, split));
            }
            if let Some(broadcast) = &broadcast {
                alternatives.push(alternative("attention_broadcast", together, broadcast));
            }
            // It computes scores again for every 16 values of a head.
            alternatives.push(alternative("attention", split.is_none(), &whole));
            alternatives.sort_by_key(|way| !way.promising);
            Class { from, alternatives }
        };
        let mut classes = vec![class(1)];
        if broadcast.is_some() {
            classes.push(class(WIDE_ROWS));
        }
        Ok(Operation {
            rows: Rows::Tokens,
            classes,
        })
    }

    /// Attention in parts, and what joins them.
    fn attention_parts(
        &self,
        op: &Attention,
        [parts, merge]: [(Variant, Grid); 2],
    ) -> [Dispatch; 2] {
        [
            self.attention_dispatch(op, parts, Slot::Scratch),
            self.attention_merge(op, merge),
        ]
    }

    /// Joins the parts in the scratch buffer.
    pub(super) fn attention_merge(
        &self,
        op: &Attention,
        (variant, grid): (Variant, Grid),
    ) -> Dispatch {
        Dispatch {
            variant,
            params: AttentionMergeParams {
                heads: op.heads as u32,
                quads: quads(&self.cache) as u32,
                splits: SPLITS as u32,
                stride: self.stride(op.out),
            }
            .words(),
            slots: vec![
                (1, Slot::Step),
                (2, Slot::Scratch),
                (3, Slot::Activation(op.out)),
            ],
            grid,
        }
    }

    fn attention_dispatch(
        &self,
        op: &Attention,
        (variant, grid): (Variant, Grid),
        out: Slot,
    ) -> Dispatch {
        let cache = self.cache;
        Dispatch {
            variant,
            params: AttentionParams {
                positions: self.layout.positions() as u32,
                slots: self.layout.slots() as u32,
                tables: self.layout.tables() as u32,
                pages: self.layout.pages as u32,
                page_size: cache.page_size as u32,
                heads: op.heads as u32,
                kv_heads: cache.kv_heads as u32,
                head_dim: cache.head_dim as u32,
                quads: quads(&cache) as u32,
                stride: self.stride(op.q),
                splits: SPLITS as u32,
                window: window(op),
                scale: op.scale,
                cap: op.cap.unwrap_or(0.0),
            }
            .words(),
            slots: vec![
                (1, Slot::Step),
                (2, Slot::Activation(op.q)),
                (3, Slot::Keys(op.layer)),
                (4, Slot::Values(op.layer)),
                (5, out),
            ],
            grid,
        }
    }

    /// Bytes of the parts that `attention_split.wgsl` makes: for each row, head and split its quads and
    /// one more. Few rows share [`SPLITS`] splits, so there are never more than the larger of both.
    pub(super) fn parts_bytes(&self, op: &Attention) -> u64 {
        let parts = self.tape.max_rows.max(SPLITS) * op.heads;
        (parts * (quads(&self.cache) + 1) * 16) as u64
    }
}

/// Positions that a row sees, as the kernels count them.
pub(super) fn window(op: &Attention) -> u32 {
    op.window.unwrap_or(usize::MAX).min(u32::MAX as usize) as u32
}
