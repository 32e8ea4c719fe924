//! How long an assistant's drafts are, and how sure it must be.
//!
//! Source: `AssistedCandidateGenerator.update_candidate_strategy`.

/// How an assistant proposes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AssistantSettings {
    /// Tokens of a draft, at first.
    pub tokens: usize,
    /// How that adapts.
    pub schedule: Schedule,
    /// A draft ends with a token that the assistant gives less than this probability. 0 is off.
    pub confidence_threshold: f64,
    /// Tokens of the assistant that are compared when tokenizers differ.
    pub assistant_lookbehind: usize,
    /// Tokens of the model that are compared when tokenizers differ.
    pub target_lookbehind: usize,
    /// The model's weight against the assistant in what is accepted; 1 unless given.
    pub ensemble_weight: Option<f64>,
}

/// How the length of drafts adapts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// Not at all.
    Constant,
    /// Two more when all of a draft was right, one less otherwise; kept for the assistant's next call.
    Heuristic,
    /// The same, for one call.
    HeuristicTransient,
}

/// What was learned from the drafts so far.
#[derive(Debug, Clone)]
pub(super) struct Course {
    schedule: Schedule,
    same_tokens: bool,
    /// Tokens of the next draft.
    pub tokens: usize,
    /// The probability below which it ends.
    pub threshold: f64,
    /// The assistant's probabilities of tokens that were verified, and whether they were right.
    judged: Vec<(f64, bool)>,
    /// The probabilities of the draft that waits.
    waiting: Vec<f64>,
}

impl Course {
    /// The beginning, with drafts of `tokens` tokens. Where the assistant's tokens are not the model's,
    /// it cannot be told which of them were right, and the threshold stays as it is.
    pub fn new(settings: &AssistantSettings, tokens: usize, same_tokens: bool) -> Self {
        Self {
            same_tokens,
            schedule: settings.schedule,
            tokens,
            threshold: settings.confidence_threshold,
            judged: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Begins a draft.
    pub fn begin(&mut self) {
        self.waiting.clear();
    }

    /// Notes the assistant's probability of a token that it proposes; whether the draft ends with it.
    pub fn propose(&mut self, probability: f64) -> bool {
        self.waiting.push(probability);
        probability < self.threshold
    }

    /// Learns that of the last draft's `drafted` tokens `accepted` were right.
    pub fn learn(&mut self, drafted: usize, accepted: usize) {
        self.tokens = match (self.schedule, accepted == drafted) {
            (Schedule::Constant, _) => self.tokens,
            (_, true) => self.tokens.saturating_add(2),
            (_, false) => (self.tokens - 1).max(1),
        };
        // What follows a wrong token was not judged.
        let judged = self.waiting.iter().take(accepted + 1).enumerate();
        if !self.same_tokens {
            return;
        }
        self.judged
            .extend(judged.map(|(at, p)| (*p, at < accepted)));
        let right = self.judged.iter().filter(|(_, right)| *right).count();
        if self.threshold > 0.0 && self.judged.len() > 5 && (1..self.judged.len()).contains(&right)
        {
            self.threshold = best_threshold(&self.judged, right);
        }
    }
}

/// The threshold that judges best: a token wrongly proposed costs 1, one wrongly held back 3, each as a
/// share of its kind. The greatest such threshold.
fn best_threshold(judged: &[(f64, bool)], right: usize) -> f64 {
    let mut sorted = judged.to_vec();
    sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
    let wrong = (judged.len() - right) as f64;
    let (mut true_positive, mut false_positive) = (0.0, 0.0);
    let mut best = (f64::INFINITY, 0.0);
    for (at, (probability, is_right)) in sorted.iter().enumerate() {
        match is_right {
            true => true_positive += 1.0,
            false => false_positive += 1.0,
        }
        if sorted
            .get(at + 1)
            .is_some_and(|next| next.0 == *probability)
        {
            continue;
        }
        let cost = false_positive / wrong + 3.0 * (1.0 - true_positive / right as f64);
        if cost < best.0 {
            best = (cost, *probability);
        }
    }
    best.1
}
