//! Short convolution: in two dispatches, because rows may need what others of the same step store, or in one
//! where each row is of a sequence of its own.

use super::{
    super::{
        dispatch::{Dispatch, Operation, Slot, past_quads},
        forms, kernels,
        params::{Params, ShortConvParams},
    },
    Lowering, only,
};
use crate::{
    error::Result,
    ops::{Rows, ShortConv},
};

impl Lowering<'_> {
    pub(super) fn short_conv(&self, op: &ShortConv) -> Result<Operation> {
        self.convolution(op, &[(true, false), (false, true)])
    }

    /// The same if each row is of a sequence of its own.
    pub(super) fn short_conv_alone(&self, op: &ShortConv) -> Result<Operation> {
        self.convolution(op, &[(true, true)])
    }

    /// `passes`: whether each dispatch stores, and whether it convolves.
    fn convolution(&self, op: &ShortConv, passes: &[(bool, bool)]) -> Result<Operation> {
        self.distinct(op.x, op.out)?;
        let cache = self.cache;
        let weight = self.only_place(op.weight)?;
        let bias = op.bias.map(|bias| self.only_place(bias)).transpose()?;
        let params = ShortConvParams {
            positions: self.layout.positions() as u32,
            slots: self.layout.slots() as u32,
            tables: self.layout.tables() as u32,
            pages: self.layout.pages as u32,
            page_size: cache.page_size as u32,
            width: cache.conv_width as u32,
            taps: op.taps as u32,
            weight: weight.word as u32,
            has_bias: u32::from(bias.is_some()),
            bias: bias.map_or(0, |bias| bias.word as u32),
            x_stride: self.stride(op.x),
            out_stride: self.stride(op.out),
        };
        let bias = bias.map(|bias| Slot::Weights(bias.buffer));
        let kernel = kernels::SHORT_CONV.of(cache.dtype);
        let dispatch = |&(stores, convolves): &(bool, bool)| {
            let overrides = vec![
                ("STORES", f64::from(stores)),
                ("CONVOLVES", f64::from(convolves)),
            ];
            let (variant, grid) = forms::by_items(kernel, overrides, past_quads(&cache));
            Dispatch {
                variant,
                params: params.words(),
                slots: vec![
                    (1, Slot::Step),
                    (2, Slot::Activation(op.x)),
                    (3, Slot::Weights(weight.buffer)),
                    (4, bias.unwrap_or(Slot::Nothing)),
                    (5, Slot::Past(op.layer)),
                    (6, Slot::Activation(op.out)),
                ],
                grid,
            }
        };
        let dispatches = passes.iter().map(dispatch).collect();
        Ok(only("short_conv", Rows::Tokens, dispatches))
    }
}
