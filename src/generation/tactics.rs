//! What the loop itself needs to know of a configuration, beside processors, selection and criteria.

use std::collections::BTreeSet;

use super::{
    candidates::{AssistantSettings, LookupSettings, Schedule},
    config::{GenerationConfig, ModelFacts},
    selection::BeamSettings,
};

/// How the sequences of a call are run, and what is kept of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tactics {
    /// Scores of a position.
    pub vocabulary: usize,
    /// Answers to each prompt.
    pub answers: usize,
    /// Beam search, where it is asked for.
    pub beams: Option<BeamSettings>,
    /// Whether keys and values are kept from step to step.
    pub use_cache: bool,
    /// The most ids of a sequence that a step evaluates.
    pub prefill_chunk: usize,
    /// Whether the last token of a prompt is chosen again.
    pub token_healing: bool,
    /// Whether the processed scores of each step are kept.
    pub output_scores: bool,
    /// Whether the logits of each step are kept.
    pub output_logits: bool,
    /// With each token, the log-probabilities of it and of this many best ones.
    pub top_logprobs: Option<usize>,
    /// How drafts are looked up in the text, where that is asked for.
    pub lookup: Option<LookupSettings>,
    /// How an assistant drafts, where there is one.
    pub assistant: AssistantSettings,
}

impl Tactics {
    /// The most sequences that go on from a prompt at once.
    pub fn branches(&self) -> usize {
        self.beams.map_or(self.answers, |settings| settings.beams)
    }

    /// What `config` asks for; `seed` is that of the draws, where there are any.
    pub(super) fn new(config: &GenerationConfig, seed: Option<u64>, model: &ModelFacts) -> Self {
        let beams = config.num_beams.value;
        // A token that is named twice ends no more beams.
        let ends: BTreeSet<_> = config.eos_token_id.value.iter().collect();
        let considered = beams * (1 + ends.len()).max(2);
        Self {
            vocabulary: model.vocabulary,
            answers: config.num_return_sequences.value,
            beams: (beams > 1).then(|| BeamSettings {
                beams,
                considered: considered.min(beams * model.vocabulary),
                length_penalty: config.length_penalty.value,
                early_stopping: config.early_stopping.value,
                seed,
            }),
            use_cache: config.use_cache.value,
            prefill_chunk: config.prefill_chunk_size.value.unwrap_or(usize::MAX),
            token_healing: config.token_healing.value,
            output_scores: config.output_scores.value,
            output_logits: config.output_logits.value,
            top_logprobs: config.top_logprobs.value,
            lookup: config
                .prompt_lookup_num_tokens
                .value
                .map(|tokens| LookupSettings {
                    tokens,
                    ngram: config.max_matching_ngram_size.value.unwrap_or(2),
                    vocabulary: model.vocabulary,
                }),
            assistant: AssistantSettings {
                tokens: config.num_assistant_tokens.value,
                schedule: match config.num_assistant_tokens_schedule.value {
                    "heuristic" => Schedule::Heuristic,
                    "heuristic_transient" => Schedule::HeuristicTransient,
                    _ => Schedule::Constant,
                },
                confidence_threshold: config.assistant_confidence_threshold.value,
                assistant_lookbehind: config.assistant_lookbehind.value,
                target_lookbehind: config.target_lookbehind.value,
                ensemble_weight: config.assistant_ensemble_weight.value,
            },
        }
    }
}
