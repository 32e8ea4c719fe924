//! No n-gram of the prompt in the answer: removes every token that would complete a sequence of n tokens
//! which the prompt holds. Source: `EncoderNoRepeatNGramLogitsProcessor`, which a model without an
//! encoder gives its prompt.

use super::{Args, Context, Processor, Scratch, no_repeat_ngram::remove_repeats};

/// Keeps any `size` tokens in a row from being copied from the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncoderNoRepeatNgram {
    size: usize,
}

impl EncoderNoRepeatNgram {
    /// `size` is at least 1.
    pub fn new(size: usize) -> Self {
        Self { size }
    }
}

impl Processor for EncoderNoRepeatNgram {
    fn name(&self) -> &'static str {
        "encoder_no_repeat_ngram_size"
    }

    fn args(&self) -> Args {
        vec![("encoder_no_repeat_ngram_size", self.size.into())]
    }

    fn process(&self, context: &Context, scores: &mut [f32], _: &mut Scratch) {
        remove_repeats(context.prompt(), context.ids, self.size, scores);
    }
}
