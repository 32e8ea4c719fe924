//! Choosing tokens where the scores are: what an executor needs to know to choose and to go on alone.
//!
//! The meaning is that of the host's processors and selection: the edits in their order, then the filters
//! in theirs, then the best score, or a draw by Gumbel noise with the same random numbers.

/// How tokens are chosen, the same for all steps of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sampler {
    /// What changes scores, in order.
    pub edits: Vec<Edit>,
    /// Keeps as many of the best tokens, and those that score the same; 0 keeps all.
    pub top_k: usize,
    /// The probability that may be removed from below, 1 − top_p; `None` removes nothing.
    pub removable: Option<f32>,
    /// The least probability of a token relative to the best one's; 0 keeps all.
    pub min_p: f32,
    /// The probability that the tokens keep whose surprise is nearest to the entropy; 0 keeps all. Not
    /// together with the two that follow.
    pub typical: f32,
    /// The least probability of a token; 0 keeps all.
    pub epsilon: f32,
    /// η of the least probability `min(η, √η · e^(−entropy))`; 0 keeps all.
    pub eta: f32,
    /// Key of the random numbers; without one the best token is taken.
    pub seed: Option<u64>,
    /// How many of the best tokens that are left are reported, [`MOST_BEST`] at most.
    pub best: usize,
    /// Whether sequences search together: logits become log-probabilities before the edits, and the best
    /// tokens are those with the greatest sums of score and noise, where there is a seed.
    pub search: bool,
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
    /// `score + |score| · (factorᵏ − 1)` for these tokens, where the answer has k tokens more than `start`.
    Grow {
        /// The tokens.
        ids: Vec<u32>,
        /// Tokens of the answer that do not count.
        start: u32,
        /// What k is the exponent of.
        factor: f32,
    },
    /// Removes every token that would complete a sequence of this many tokens which occurred; at least 1.
    NoRepeat(u32),
}

/// When an edit applies. Lengths are those before the token that is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// For the first token of the answer; after a prompt of one token, for that at this place.
    Begins(u32),
    /// Where prompt and answer end with these tokens.
    After(Vec<u32>),
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

/// What was chosen for one output of one step, and what it was chosen from.
#[derive(Debug, Clone, PartialEq)]
pub struct Pick {
    /// The choice.
    pub choice: Choice,
    /// The best tokens that are left and their scores, best first: as many as are reported, if there are.
    pub best: Vec<(u32, f32)>,
    /// The score of the token, where any are reported.
    pub score: f32,
    /// `ln Σ exp(score)` over the tokens that are left, where any are reported.
    pub total: f32,
}

/// What was chosen.
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
/// The most tokens that are reported of a step.
pub const MOST_BEST: usize = 64;
/// Words that all edits of a sampler may take together.
pub const EDIT_WORDS: usize = 1 << 16;

/// Words of a result that reports `best` tokens.
pub(super) const fn result_words(best: usize) -> usize {
    match best {
        0 => 2,
        _ => 4 + 2 * best,
    }
}

impl Edit {
    /// Words that it takes, see [`EDIT_WORDS`].
    pub fn words(&self) -> usize {
        let listed = match &self.change {
            Change::Add(biases) => biases.len(),
            Change::Remove(ids) | Change::Force(ids) | Change::Grow { ids, .. } => ids.len(),
            _ => 0,
        };
        let beginning = match &self.when {
            When::After(ids) => ids.len(),
            _ => 0,
        };
        8 + 2 * listed + beginning
    }

    /// A change at every step.
    pub fn always(change: Change) -> Self {
        Self {
            change,
            when: When::Always,
        }
    }
}

impl Sampler {
    /// Whether tokens are filtered after the edits.
    pub fn filters(&self) -> bool {
        let shares = [self.min_p, self.typical, self.epsilon, self.eta];
        self.top_k > 0 || self.removable.is_some() || shares.iter().any(|share| *share > 0.0)
    }

    /// How many of the best tokens are all that a choice and a report need; 0 where it is no number.
    pub fn needed(&self) -> usize {
        match (self.filters(), self.search && self.seed.is_some()) {
            (true, _) => self.top_k,
            (false, false) => self.best,
            (false, true) => 0,
        }
    }

    /// Bytes of a result: a token and whether there is one; where any are reported, two numbers and the best.
    pub fn result_bytes(&self) -> usize {
        4 * result_words(self.best)
    }

    /// Whether it matters in which order tokens occurred.
    pub fn follows(&self) -> bool {
        let follows = |edit: &Edit| {
            matches!(edit.when, When::After(_)) || matches!(edit.change, Change::NoRepeat(_))
        };
        self.edits.iter().any(follows)
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
