//! Suppressed tokens: removed always, or as the first token of the answer.
//! Source: `SuppressTokensLogitsProcessor`, `SuppressTokensAtBeginLogitsProcessor`.

use super::{Args, Context, Processor, Scratch, remove};
use crate::{
    exec::sample::{Change, Edit, When},
    generation::home::DeviceForm,
};

/// Removes tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuppressTokens {
    ids: Vec<u32>,
}

/// Removes tokens where the answer begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeginSuppressTokens {
    ids: Vec<u32>,
    after_forced_bos: bool,
}

impl SuppressTokens {
    /// Removes `ids`.
    pub fn new(ids: &[u32]) -> Self {
        Self { ids: ids.to_vec() }
    }
}

impl BeginSuppressTokens {
    /// Removes `ids` as the first token; where `after_forced_bos`, and the prompt has one token at most,
    /// as the second, since the first is forced.
    pub fn new(ids: &[u32], after_forced_bos: bool) -> Self {
        Self {
            ids: ids.to_vec(),
            after_forced_bos,
        }
    }
}

impl Processor for SuppressTokens {
    fn name(&self) -> &'static str {
        "suppress_tokens"
    }

    fn args(&self) -> Args {
        vec![("suppress_tokens", self.ids.as_slice().into())]
    }

    fn device(&self) -> Option<DeviceForm> {
        let change = Change::Remove(self.ids.clone());
        Some(DeviceForm::edit(Edit::always(change)))
    }

    fn process(&self, _: &Context, scores: &mut [f32], _: &mut Scratch) {
        remove(&self.ids, scores);
    }
}

impl Processor for BeginSuppressTokens {
    fn name(&self) -> &'static str {
        "begin_suppress_tokens"
    }

    fn args(&self) -> Args {
        vec![("begin_suppress_tokens", self.ids.as_slice().into())]
    }

    fn device(&self) -> Option<DeviceForm> {
        let edit = Edit {
            change: Change::Remove(self.ids.clone()),
            when: When::Begins(u32::from(self.after_forced_bos)),
        };
        Some(DeviceForm::edit(edit))
    }

    fn process(&self, context: &Context, scores: &mut [f32], _: &mut Scratch) {
        let forced = self.after_forced_bos && context.prompt_length <= 1;
        if context.new_tokens() == usize::from(forced) {
            remove(&self.ids, scores);
        }
    }
}
