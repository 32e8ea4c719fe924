//! Checks that need more than one value: ids against the vocabulary, fields against each other.

use super::{GenerationConfig, ModelFacts, Source};
use crate::error::{Error, Result};

/// Sequences of one prompt; far more than any cache has room for.
const MOST_BRANCHES: usize = 4096;

impl GenerationConfig {
    /// Fails if the call names a token that the model does not have, or if two values contradict each
    /// other.
    pub(super) fn check(&self, model: &ModelFacts) -> Result<()> {
        self.check_tokens(model.vocabulary)?;
        self.check_forced()?;
        self.check_counts()
    }

    fn check_tokens(&self, vocabulary: usize) -> Result<()> {
        let check = |name, source, ids: &mut dyn Iterator<Item = &u32>| {
            // A file was written for its model; where it was not, its ids beyond the end mean nothing.
            let mut outside = ids.filter(|id| **id as usize >= vocabulary);
            match outside.next().filter(|_| source == Source::Call) {
                None => Ok(()),
                Some(id) => Err(Error::option(
                    name,
                    format!(
                        "found {id}, allowed: ids below {vocabulary}, the size of the vocabulary"
                    ),
                )),
            }
        };
        let one = [
            ("pad_token_id", &self.pad_token_id),
            ("bos_token_id", &self.bos_token_id),
            ("forced_bos_token_id", &self.forced_bos_token_id),
        ];
        for (name, setting) in one {
            check(name, setting.source, &mut setting.value.iter())?;
        }
        let lists = [
            ("eos_token_id", &self.eos_token_id),
            ("suppress_tokens", &self.suppress_tokens),
            ("begin_suppress_tokens", &self.begin_suppress_tokens),
            ("dry_sequence_breaker_ids", &self.dry_sequence_breaker_ids),
        ];
        for (name, setting) in lists {
            check(name, setting.source, &mut setting.value.iter())?;
        }
        let words = &self.bad_words_ids;
        check(
            "bad_words_ids",
            words.source,
            &mut words.value.iter().flatten(),
        )?;
        let biases = &self.sequence_bias;
        let mut ids = biases.value.iter().flat_map(|(ids, _)| ids);
        check("sequence_bias", biases.source, &mut ids)?;
        let biases = &self.logit_bias;
        let mut ids = biases.value.iter().map(|(id, _)| id);
        check("logit_bias", biases.source, &mut ids)?;
        let forced = &self.forced_eos_token_id;
        check(
            "forced_eos_token_id",
            forced.source,
            &mut forced.value.iter().flatten(),
        )?;
        Ok(())
    }

    /// A token that is forced and suppressed would leave nothing to choose from.
    fn check_forced(&self) -> Result<()> {
        let bos: Vec<u32> = self.forced_bos_token_id.value.into_iter().collect();
        let eos = self.forced_eos_token_id.value.clone().unwrap_or_default();
        for (name, forced) in [("forced_bos_token_id", &bos), ("forced_eos_token_id", &eos)] {
            let suppressed = |id: &u32| self.suppress_tokens.value.contains(id);
            if !forced.is_empty() && forced.iter().all(suppressed) {
                let message = format!(
                    "found {forced:?}, allowed: at least one id that suppress_tokens leaves"
                );
                return Err(Error::option(name, message));
            }
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<()> {
        let (beams, answers) = (self.num_beams.value, self.num_return_sequences.value);
        let refuse = |name, message: String| Err(Error::option(name, message));
        let many = [("num_beams", beams), ("num_return_sequences", answers)];
        if let Some((name, found)) = many.into_iter().find(|(_, count)| *count > MOST_BRANCHES) {
            return refuse(
                name,
                format!("found {found}, allowed: at most {MOST_BRANCHES}"),
            );
        }
        if beams == 1 && answers > 1 && !self.do_sample.value {
            return refuse(
                "num_return_sequences",
                format!(
                    "found {answers}, allowed: 1 without beams and without sampling, as all answers would be the same"
                ),
            );
        }
        if beams > 1 && answers > beams {
            return refuse(
                "num_return_sequences",
                format!("found {answers}, allowed: at most num_beams, which is {beams}"),
            );
        }
        if beams > 1 && self.prompt_lookup_num_tokens.value.is_some() {
            return refuse(
                "prompt_lookup_num_tokens",
                format!("allowed: only without beams; num_beams is {beams}"),
            );
        }
        let alone = beams == 1 && self.prompt_lookup_num_tokens.value.is_none();
        if self.mirostat_mode.value != 0 && !alone {
            return refuse(
                "mirostat_mode",
                "found 2, allowed: 0 with beams or drafts, since Mirostat follows one sequence token by token"
                    .into(),
            );
        }
        Ok(())
    }
}
