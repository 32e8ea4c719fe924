//! The chain of a configuration: which processors run, in Hugging Face's order.

use std::rc::Rc;

use super::{
    BadWords, BeginSuppressTokens, Cutoff, Dry, EncoderNoRepeatNgram, EncoderRepetitionPenalty,
    ExponentialDecay, ForcedBos, ForcedEos, FrequencyPenalty, Guidance, LogitBias, MinLength, MinP,
    Mirostat, NoRepeatNgram, PresencePenalty, Processor, RemoveInvalid, Renormalize,
    RepetitionPenalty, SequenceBias, Stage, SuppressTokens, Temperature, TopH, TopK, TopNSigma,
    TopP, Typical, Watermark, Work, Xtc,
};
use crate::generation::{
    callbacks::Functions,
    config::{GenerationConfig, ModelFacts, Setting, Source},
    plan::{Limit, stopping},
};

/// The processors that `config` asks for, in order, and the caller's `functions` at their places. A seed
/// is set where tokens are drawn.
pub fn chain(config: &GenerationConfig, model: &ModelFacts, functions: Functions) -> Vec<Stage> {
    let mut chain = Chain(Vec::new());
    chain.penalties(config);
    chain.lengths(config);
    if functions.allowed_tokens {
        chain.add(Work::AllowedTokens, Source::Call);
    }
    chain.forced(config, model);
    for index in 0..functions.processors {
        chain.add(Work::Function(index), Source::Call);
    }
    if config.do_sample.value {
        chain.filters(config);
    }
    let watermark = &config.watermarking_config;
    chain.some(watermark, |arguments| Watermark::new(*arguments));
    chain.add_if(
        config.renormalize_logits.value,
        &config.renormalize_logits,
        || Renormalize,
    );
    chain.0
}

/// The chain while it is being built.
struct Chain(Vec<Stage>);

impl Chain {
    fn add(&mut self, work: Work, source: Source) {
        self.0.push(Stage { work, source });
    }

    fn push(&mut self, processor: impl Processor + 'static, source: Source) {
        self.add(Work::Processor(Rc::new(processor)), source);
    }

    fn add_if<T, P: Processor + 'static>(
        &mut self,
        wanted: bool,
        setting: &Setting<T>,
        make: impl FnOnce() -> P,
    ) {
        if wanted {
            self.push(make(), setting.source);
        }
    }

    fn some<T, P: Processor + 'static>(
        &mut self,
        setting: &Setting<Option<T>>,
        make: impl FnOnce(&T) -> P,
    ) {
        if let Some(value) = &setting.value {
            self.push(make(value), setting.source);
        }
    }

    /// What changes the scores of tokens by what was said before.
    fn penalties(&mut self, c: &GenerationConfig) {
        let scale = &c.guidance_scale;
        if let Some(value) = scale.value.filter(|value| *value != 1.0) {
            self.push(Guidance::new(value), scale.source);
        }
        let (bias, single) = (&c.sequence_bias, &c.logit_bias);
        self.add_if(!bias.value.is_empty(), bias, || {
            SequenceBias::new(bias.value.clone())
        });
        self.add_if(!single.value.is_empty(), single, || {
            LogitBias::new(&single.value)
        });
        let prompt = &c.encoder_repetition_penalty;
        self.add_if(prompt.value != 1.0, prompt, || {
            EncoderRepetitionPenalty::new(prompt.value)
        });
        let all = &c.repetition_penalty;
        self.add_if(all.value != 1.0, all, || RepetitionPenalty::new(all.value));
        let frequency = &c.frequency_penalty;
        self.add_if(frequency.value != 0.0, frequency, || {
            FrequencyPenalty::new(frequency.value)
        });
        let presence = &c.presence_penalty;
        self.add_if(presence.value != 0.0, presence, || {
            PresencePenalty::new(presence.value)
        });
        let dry = &c.dry_multiplier;
        self.add_if(dry.value > 0.0, dry, || Dry {
            multiplier: dry.value,
            base: c.dry_base.value,
            allowed_length: c.dry_allowed_length.value,
            last_n: c.dry_penalty_last_n.value,
            breakers: c.dry_sequence_breaker_ids.value.clone(),
        });
        let size = &c.no_repeat_ngram_size;
        self.add_if(size.value > 0, size, || NoRepeatNgram::new(size.value));
        let size = &c.encoder_no_repeat_ngram_size;
        self.add_if(size.value > 0, size, || {
            EncoderNoRepeatNgram::new(size.value)
        });
    }

    /// What removes tokens, by where in the answer they stand.
    fn lengths(&mut self, c: &GenerationConfig) {
        let eos = c.eos_token_id.value.as_slice();
        let words = &c.bad_words_ids;
        self.add_if(!words.value.is_empty(), words, || {
            BadWords::new(&words.value, eos)
        });
        // Without a token that ends the answer there is nothing to hold back or to favour.
        let ends = !eos.is_empty();
        let (length, new) = (&c.min_length, &c.min_new_tokens);
        let wanted = ends && length.value > 0 && new.value.is_none();
        self.add_if(wanted, length, || MinLength::length(length.value, eos));
        if let Some(least) = new.value.filter(|least| ends && *least > 0) {
            self.push(MinLength::new_tokens(least, eos), new.source);
        }
    }

    /// What forces, favours and suppresses tokens.
    fn forced(&mut self, c: &GenerationConfig, model: &ModelFacts) {
        let eos = c.eos_token_id.value.as_slice();
        self.some(&c.forced_bos_token_id, |id| ForcedBos::new(*id));
        let forced = &c.forced_eos_token_id;
        let limit = Limit::of(&stopping(c, model, Functions::default()));
        self.some(forced, |ids| ForcedEos::new(limit, ids));
        let invalid = &c.remove_invalid_values;
        self.add_if(invalid.value, invalid, || RemoveInvalid);
        let decay = &c.exponential_decay_length_penalty;
        if let Some(pair) = decay.value.filter(|_| !eos.is_empty()) {
            self.push(ExponentialDecay::new(pair, eos), decay.source);
        }
        let ids = &c.suppress_tokens;
        self.add_if(!ids.value.is_empty(), ids, || {
            SuppressTokens::new(&ids.value)
        });
        let ids = &c.begin_suppress_tokens;
        let after = c.forced_bos_token_id.value.is_some();
        self.add_if(!ids.value.is_empty(), ids, || {
            BeginSuppressTokens::new(&ids.value, after)
        });
    }

    /// What shapes and truncates the distribution that tokens are drawn from.
    fn filters(&mut self, c: &GenerationConfig) {
        // Beams go on with several tokens, one of which may be an end.
        let keep = match c.num_beams.value {
            1 => 1,
            _ => c.eos_token_id.value.len().max(1) + 1,
        };
        let value = &c.temperature;
        self.add_if(value.value != 1.0, value, || Temperature::new(value.value));
        self.some(&c.top_n_sigma, |n| TopNSigma::new(*n));
        self.some(&c.top_h, |share| TopH::new(*share));
        let value = &c.top_k;
        self.add_if(value.value != 0, value, || TopK::new(value.value, keep));
        let value = &c.top_p;
        self.add_if(value.value < 1.0, value, || TopP::new(value.value, keep));
        self.some(&c.min_p, |share| MinP::new(*share, keep));
        let value = &c.typical_p;
        self.add_if(value.value < 1.0, value, || Typical::new(value.value, keep));
        let value = &c.epsilon_cutoff;
        self.add_if(value.value > 0.0, value, || {
            Cutoff::epsilon(value.value, keep)
        });
        let value = &c.eta_cutoff;
        self.add_if(value.value > 0.0, value, || Cutoff::eta(value.value, keep));
        let value = &c.xtc_probability;
        self.add_if(value.value > 0.0, value, || Xtc {
            probability: value.value,
            threshold: c.xtc_threshold.value,
            seed: c.seed.value.unwrap_or_default(),
        });
        let value = &c.mirostat_mode;
        self.add_if(value.value != 0, value, || Mirostat {
            tau: c.mirostat_tau.value,
            eta: c.mirostat_eta.value,
        });
    }
}
