//! Checks that need more than one value: ids against the vocabulary, fields against each other.

use super::{GenerationConfig, ModelFacts, Source, layers};
use crate::{
    error::{Error, Result},
    generation::processors::Mirostat,
};

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
        let (bos, eos) = (&self.forced_bos_token_id, &self.forced_eos_token_id);
        let first: Vec<u32> = bos.value.into_iter().collect();
        let last = eos.value.as_deref().unwrap_or_default();
        for (name, source, forced) in [
            ("forced_bos_token_id", bos.source, &first[..]),
            ("forced_eos_token_id", eos.source, last),
        ] {
            let suppressed = |id: &u32| self.suppress_tokens.value.contains(id);
            if !forced.is_empty() && forced.iter().all(suppressed) {
                let message = format!(
                    "found {forced:?}, allowed: at least one id that suppress_tokens leaves"
                );
                return Err(refusal(name, source, message));
            }
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<()> {
        let (beams, answers) = (&self.num_beams, &self.num_return_sequences);
        let many = [("num_beams", beams), ("num_return_sequences", answers)];
        if let Some((name, found)) = many
            .into_iter()
            .find(|(_, count)| count.value > MOST_BRANCHES)
        {
            let message = format!("found {}, allowed: at most {MOST_BRANCHES}", found.value);
            return Err(refusal(name, found.source, message));
        }
        let (beams, lookup) = (beams.value, &self.prompt_lookup_num_tokens);
        let few = match beams {
            1 if answers.value > 1 && !self.do_sample.value => {
                "1 without beams and without sampling, as all answers would be the same".into()
            }
            2.. if answers.value > beams => format!("at most num_beams, which is {beams}"),
            _ => String::new(),
        };
        if !few.is_empty() {
            let message = format!("found {}, allowed: {few}", answers.value);
            return Err(refusal("num_return_sequences", answers.source, message));
        }
        if beams > 1 && lookup.value.is_some() {
            let message = format!("allowed: only without beams; num_beams is {beams}");
            return Err(refusal("prompt_lookup_num_tokens", lookup.source, message));
        }
        let alone = beams == 1 && lookup.value.is_none();
        if self.mirostat_mode.value != 0 && !alone {
            let source = self.mirostat_mode.source;
            return Err(refusal(Mirostat::NAME, source, Mirostat::ALONE.into()));
        }
        Ok(())
    }
}

/// The refusal of the value of `name`, which is from `source`.
fn refusal(name: &str, source: Source, message: String) -> Error {
    let error = Error::option(name, message);
    match source {
        Source::GenerationConfig => layers::in_file(name, &error),
        _ => error,
    }
}
