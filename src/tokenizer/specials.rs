//! Special tokens: their names, and which of them stand around a raw prompt.

/// The named special tokens of a tokenizer.
#[derive(Clone, Default)]
pub(super) struct SpecialTokens {
    /// Name (`bos_token`, …) and text, for chat templates.
    pub names: Vec<(String, String)>,
    /// The id that begins a text.
    pub bos: Option<u32>,
    /// The ids that end a text.
    pub eos: Vec<u32>,
    /// The id that fills up.
    pub pad: Option<u32>,
}

/// The ids around a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Around(Vec<Piece>);

/// A part of the whole sequence.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    /// These ids.
    Ids(Vec<u32>),
    /// The ids of the text.
    Text,
}

impl Default for Around {
    fn default() -> Self {
        Self(vec![Piece::Text])
    }
}

impl Around {
    /// The pieces in order.
    pub fn new(pieces: Vec<Piece>) -> Self {
        Self(pieces)
    }

    /// At most one id before the text and one after it.
    pub fn between(before: Option<u32>, after: Option<u32>) -> Self {
        let one = |id| Piece::Ids(vec![id]);
        let pieces = before
            .map(one)
            .into_iter()
            .chain([Piece::Text])
            .chain(after.map(one));
        Self(pieces.collect())
    }

    /// The highest id that is added.
    pub fn highest(&self) -> Option<u32> {
        let ids = self.0.iter().map(|piece| match piece {
            Piece::Ids(ids) => ids.as_slice(),
            Piece::Text => &[],
        });
        ids.flatten().copied().max()
    }

    /// The whole sequence.
    pub fn apply(&self, text: Vec<u32>) -> Vec<u32> {
        match self.0.as_slice() {
            [Piece::Text] => text,
            pieces => pieces
                .iter()
                .flat_map(|piece| match piece {
                    Piece::Ids(ids) => ids,
                    Piece::Text => &text,
                })
                .copied()
                .collect(),
        }
    }
}
