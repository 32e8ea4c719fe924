//! Forced tokens: the one after a prompt of one token, and the last one before the length limit. Every
//! other token is removed. Source: `ForcedBOSTokenLogitsProcessor`, `ForcedEOSTokenLogitsProcessor`.

use super::{Args, Context, Processor, Scratch};
use crate::{
    exec::sample::{Change, Edit, When},
    generation::{home::DeviceForm, plan::Limit},
};

/// The token after a prompt of one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForcedBos {
    id: u32,
}

/// The last token before the length limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForcedEos {
    limit: Limit,
    ids: Vec<u32>,
}

impl ForcedBos {
    /// Forces `id`.
    pub fn new(id: u32) -> Self {
        Self { id }
    }
}

impl ForcedEos {
    /// Forces one of `ids`, which are equally good, as the last token that `limit` allows.
    pub fn new(limit: Limit, ids: &[u32]) -> Self {
        Self {
            limit,
            ids: ids.to_vec(),
        }
    }
}

impl Processor for ForcedBos {
    fn name(&self) -> &'static str {
        "forced_bos_token_id"
    }

    fn args(&self) -> Args {
        vec![("forced_bos_token_id", f64::from(self.id).into())]
    }

    fn device(&self) -> Option<DeviceForm> {
        Some(DeviceForm::edit(Edit {
            change: Change::Force(vec![self.id]),
            when: When::LengthIs(1),
        }))
    }

    fn process(&self, context: &Context, scores: &mut [f32], _: &mut Scratch) {
        if context.ids.len() == 1 {
            force(&[self.id], scores);
        }
    }
}

impl Processor for ForcedEos {
    fn name(&self) -> &'static str {
        "forced_eos_token_id"
    }

    fn args(&self) -> Args {
        vec![("forced_eos_token_id", self.ids.as_slice().into())]
    }

    fn device(&self) -> Option<DeviceForm> {
        Some(DeviceForm::edit(Edit {
            change: Change::Force(self.ids.clone()),
            when: When::Last,
        }))
    }

    fn process(&self, context: &Context, scores: &mut [f32], _: &mut Scratch) {
        if context.ids.len() + 1 == self.limit.longest(context.prompt_length) {
            force(&self.ids, scores);
        }
    }
}

/// Gives `ids` the score 0 and removes all others.
pub(super) fn force(ids: &[u32], scores: &mut [f32]) {
    scores.fill(f32::NEG_INFINITY);
    for id in ids {
        if let Some(score) = scores.get_mut(*id as usize) {
            *score = 0.0;
        }
    }
}
