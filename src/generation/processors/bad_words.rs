//! Bad words: token sequences that never occur, each a sequence bias of −∞. A single token that ends the
//! answer cannot be forbidden this way. Source: `NoBadWordsLogitsProcessor`.

use super::{Args, Context, Processor, Scratch, SequenceBias};
use crate::generation::home::DeviceForm;

/// Removes tokens that would complete a forbidden sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct BadWords(SequenceBias);

impl BadWords {
    /// `words` as tokens, none of them empty; `eos` are the tokens that end the answer.
    pub fn new(words: &[Vec<u32>], eos: &[u32]) -> Self {
        let ends = |word: &&Vec<u32>| matches!(word.as_slice(), [id] if eos.contains(id));
        let kept = words.iter().filter(|word| !ends(word));
        Self(SequenceBias::new(
            kept.map(|word| (word.clone(), f64::NEG_INFINITY)).collect(),
        ))
    }
}

impl Processor for BadWords {
    fn name(&self) -> &'static str {
        "bad_words_ids"
    }

    fn args(&self) -> Args {
        vec![("bad_words_ids", self.0.sequences())]
    }

    fn device(&self) -> Option<DeviceForm> {
        self.0.device()
    }

    fn process(&self, context: &Context, scores: &mut [f32], scratch: &mut Scratch) {
        self.0.process(context, scores, scratch);
    }
}
