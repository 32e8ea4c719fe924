//! No repeated n-gram: removes every token that would complete a sequence of n tokens which has occurred.
//! Source: Paulus et al. 2017; `NoRepeatNGramLogitsProcessor`.

use super::{Args, Context, Processor, Scratch};
use crate::{
    exec::sample::{Change, Edit},
    generation::home::DeviceForm,
};

/// Keeps any `size` tokens in a row from occurring twice in prompt and answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRepeatNgram {
    size: usize,
}

impl NoRepeatNgram {
    /// `size` is at least 1.
    pub fn new(size: usize) -> Self {
        Self { size }
    }
}

impl Processor for NoRepeatNgram {
    fn name(&self) -> &'static str {
        "no_repeat_ngram_size"
    }

    fn args(&self) -> Args {
        vec![("no_repeat_ngram_size", self.size.into())]
    }

    fn device(&self) -> Option<DeviceForm> {
        let size = u32::try_from(self.size).unwrap_or(u32::MAX);
        let change = Change::NoRepeat(size);
        Some(DeviceForm::edit(Edit::always(change)))
    }

    fn process(&self, context: &Context, scores: &mut [f32], _: &mut Scratch) {
        remove_repeats(context.ids, context.ids, self.size, scores);
    }
}

/// Removes the tokens that complete an n-gram of `source` whose beginning is the end of `ids`.
pub(super) fn remove_repeats(source: &[u32], ids: &[u32], size: usize, scores: &mut [f32]) {
    let Some(start) = (ids.len() + 1).checked_sub(size) else {
        return;
    };
    let beginning = &ids[start..];
    for ngram in source.windows(size) {
        if let Some((&last, first)) = ngram.split_last()
            && first == beginning
            && let Some(score) = scores.get_mut(last as usize)
        {
            *score = f32::NEG_INFINITY;
        }
    }
}
