//! Choosing tokens where the scores are: what an executor needs to know to choose and to go on alone.
//!
//! The meaning is that of the host's processors and selection: the edits in their order, then the filters
//! top_k, top_p and min_p, then the best score, or a draw by Gumbel noise with the same random numbers.

/// How tokens are chosen, the same for all steps of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampler {
    /// What changes scores, in order.
    pub edits: Vec<Edit>,
    /// Keeps as many of the best tokens, and those that score the same; 0 keeps all.
    pub top_k: usize,
    /// The probability that may be removed from below, 1 − top_p; `None` removes nothing.
    pub removable: Option<f32>,
    /// The least probability of a token relative to the best one's; 0 keeps all.
    pub min_p: f32,
    /// Key of the random numbers; without one the best token is taken.
    pub seed: Option<u64>,
}

/// A change of scores.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// What changes.
    pub change: Change,
    /// When it applies.
    pub when: When,
}

/// What an edit does.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// `score · penalty` below 0, else `score / penalty`, for tokens that occurred.
    Repetition(f32),
    /// `score − penalty` for each occurrence in the answer.
    Frequency(f32),
    /// `score − penalty` for tokens of the answer.
    Presence(f32),
    /// `score / temperature`.
    Temperature(f32),
    /// `score + bias` for each of these tokens.
    Add(Vec<(u32, f32)>),
    /// Removes these tokens.
    Remove(Vec<u32>),
    /// Gives these tokens the score 0 and removes all others.
    Force(Vec<u32>),
}

/// When an edit applies. Lengths are those before the token that is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At every step.
    Always,
    /// While the answer has fewer tokens.
    NewTokensBelow(u32),
    /// While prompt and answer have fewer tokens.
    LengthBelow(u32),
    /// When the answer has this many tokens.
    NewTokensAre(u32),
    /// When prompt and answer have this many tokens.
    LengthIs(u32),
    /// For the last token that the limit allows.
    Last,
}

/// The sequence of one output of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    /// Its number in the call, for draws.
    pub sequence: u32,
    /// Prompt and answer, as far as they are known.
    pub ids: &'a [u32],
    /// How many of the ids are the prompt.
    pub prompt_length: usize,
    /// Tokens of the answer by now, those that were chosen on the device and are not known yet among them.
    pub new_tokens: usize,
    /// The most tokens that prompt and answer may come to.
    pub limit: usize,
}

/// Steps that run without waiting for the host.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// How tokens are chosen.
    pub sampler: &'a Sampler,
    /// The sequence of each output.
    pub rows: &'a [Row<'a>],
    /// Steps, at least 1: the one that is given, and those in which each chosen token is evaluated to
    /// choose the next. More than one only where every row of the step is an output.
    pub steps: usize,
    /// Whether the tokens of the step are those that the run before chose, in the order of its outputs; what
    /// the step says is ignored then. Only right after that run: see
    /// [`Executor::epoch`](super::Executor::epoch).
    pub resume: bool,
}

/// What was chosen for one output of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// A token.
    Token(u32),
    /// A score was NaN or +∞.
    Incomparable,
    /// Every token was removed.
    NothingLeft,
}

/// The most steps of a run.
pub const MOST_STEPS: usize = 64;

impl Edit {
    /// A change at every step.
    pub fn always(change: Change) -> Self {
        Self {
            change,
            when: When::Always,
        }
    }
}

impl Change {
    /// Tokens that it lists.
    pub fn listed(&self) -> usize {
        match self {
            Self::Add(biases) => biases.len(),
            Self::Remove(ids) | Self::Force(ids) => ids.len(),
            _ => 0,
        }
    }
}

impl Sampler {
    /// Whether tokens are filtered after the edits.
    pub fn filters(&self) -> bool {
        self.top_k > 0 || self.removable.is_some() || self.min_p > 0.0
    }

    /// Whether it matters which tokens occurred.
    pub fn counts(&self) -> bool {
        let counts = |edit: &Edit| {
            use Change::{Frequency, Presence, Repetition};
            matches!(edit.change, Repetition(_) | Frequency(_) | Presence(_))
        };
        self.edits.iter().any(counts)
    }
}
