//! Warnings about what the call set and what has no effect. A file's settings are silent: it was
//! written for every call.

use super::{
    super::{
        callbacks::Functions,
        config::{GenerationConfig, ModelFacts, PlanSetting, SAMPLING_FIELDS, Source, Warning},
        fields,
    },
    limits::{Limit, stopping},
};

/// Fields that only beam search reads.
const BEAM_FIELDS: &[&str] = &["early_stopping", "length_penalty"];
/// Fields that only the don't-repeat-yourself penalty reads.
const DRY_FIELDS: &[&str] = &[
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "dry_sequence_breaker_ids",
];
/// Fields that need a token which ends the answer.
const EOS_FIELDS: &[&str] = &[
    "min_length",
    "min_new_tokens",
    "exponential_decay_length_penalty",
];
/// Fields that only Mirostat reads.
const MIROSTAT_FIELDS: &[&str] = &["mirostat_tau", "mirostat_eta"];

/// What the call set without effect, or with less than it says.
pub fn ineffective(config: &GenerationConfig, model: &ModelFacts) -> Vec<Warning> {
    let settings = config.settings();
    let mut warnings = Vec::new();
    let mut warn = |field: &str, message: String| {
        warnings.push(Warning {
            field: field.into(),
            message,
        });
    };
    let sampling = config.do_sample.value;
    let mirostat = config.mirostat_mode.value != 0;
    let off = "it has no effect, because";
    let idle: [(&[&str], bool, &str); 7] = [
        (&SAMPLING_FIELDS, !sampling, "do_sample is false"),
        (BEAM_FIELDS, config.num_beams.value == 1, "num_beams is 1"),
        (
            DRY_FIELDS,
            config.dry_multiplier.value == 0.0,
            "dry_multiplier is 0",
        ),
        (
            EOS_FIELDS,
            config.eos_token_id.value.is_empty(),
            "no token ends the answer",
        ),
        (
            &["xtc_threshold"],
            sampling && config.xtc_probability.value == 0.0,
            "xtc_probability is 0",
        ),
        (MIROSTAT_FIELDS, sampling && !mirostat, "mirostat_mode is 0"),
        (
            &["max_matching_ngram_size"],
            config.prompt_lookup_num_tokens.value.is_none(),
            "prompt_lookup_num_tokens is not set",
        ),
    ];
    for (names, idle, reason) in idle {
        for setting in settings.iter().filter(|_| idle) {
            if names.contains(&setting.name) && asks_for_something(setting) {
                warn(setting.name, format!("{off} {reason}"));
            }
        }
    }
    let context = model.context_length;
    match (&config.max_length, &config.max_new_tokens) {
        (length, _) if length.source != Source::Call => {}
        (_, new) if new.value.is_some() => warn(
            "max_length",
            format!("{off} max_new_tokens is set ({})", new.source.name()),
        ),
        (length, _) if length.value > context => warn(
            "max_length",
            format!("the context ends the answer at {context} tokens"),
        ),
        _ => {}
    }
    let limit = Limit::of(&stopping(config, model, Functions::default()));
    let ends = format!("prompt and answer end at {} tokens", limit.length);
    // Without an end token both have been warned about.
    for setting in settings
        .iter()
        .filter(|setting| !config.eos_token_id.value.is_empty() && asks_for_something(setting))
    {
        match (setting.name, config.min_new_tokens.value) {
            ("min_length", Some(_)) => {
                let source = config.min_new_tokens.source.name();
                warn(
                    "min_length",
                    format!("{off} min_new_tokens is set ({source})"),
                );
            }
            ("min_length", None) if config.min_length.value > limit.length => {
                warn("min_length", ends.clone());
            }
            ("min_new_tokens", Some(least)) if least > limit.new_tokens => {
                let most = limit.new_tokens;
                let by = match config.max_new_tokens.value {
                    Some(_) => "max_new_tokens",
                    None => "the default of max_length",
                };
                warn(
                    "min_new_tokens",
                    format!("{by} ends the answer at {most} tokens"),
                );
            }
            // A prompt has at least one token.
            ("min_new_tokens", Some(least)) if least >= limit.length => {
                warn("min_new_tokens", ends.clone());
            }
            _ => {}
        }
    }
    if config.pad_token_id.source == Source::Call {
        warn(
            "pad_token_id",
            "it has no effect: sequences are returned at their own lengths".into(),
        );
    }
    let banned = |ids: &[u32]| matches!(ids, [id] if config.eos_token_id.value.contains(id));
    if config.bad_words_ids.source == Source::Call
        && config.bad_words_ids.value.iter().any(|ids| banned(ids))
    {
        warn(
            "bad_words_ids",
            "it cannot forbid a token that ends the answer; use suppress_tokens or min_new_tokens"
                .into(),
        );
    }
    if sampling && mirostat && config.top_k.source == Source::Library {
        warn(
            "mirostat_mode",
            "the default top_k of 50 truncates too; set top_k to 0 to leave that to Mirostat"
                .into(),
        );
    }
    warnings
}

/// Whether the call set the field, to something else than what holds anyway.
fn asks_for_something(setting: &PlanSetting) -> bool {
    let neutral = |field: &fields::Field| field.is_neutral(&setting.value);
    setting.source == Source::Call && !fields::find(setting.name).is_some_and(neutral)
}
