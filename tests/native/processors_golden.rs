//! Processors against Hugging Face's own output: every case of `processors.jsonl`.

use std::{collections::BTreeMap, fs, rc::Rc};

use decant::generation::{
    Limit, Row, Value, apply_processors,
    fields::{self, Checked, Watermark as WatermarkArguments},
    processors::{
        BadWords, BeginSuppressTokens, Context, Cutoff, EncoderNoRepeatNgram,
        EncoderRepetitionPenalty, ExponentialDecay, ForcedBos, ForcedEos, Guidance, MinLength,
        MinP, NoRepeatNgram, Processor, RemoveInvalid, Renormalize, RepetitionPenalty, Scratch,
        SequenceBias, SuppressTokens, Temperature, TopH, TopK, TopP, Typical, Watermark,
    },
};
use serde_json::json;

use crate::{processors_prefix::run_prefix, support::golden};

fn number(value: &serde_json::Value) -> f32 {
    match value.as_str() {
        Some("-inf") => f32::NEG_INFINITY,
        Some("inf") => f32::INFINITY,
        Some("nan") => f32::NAN,
        _ => value.as_f64().unwrap() as f32,
    }
}

fn row(value: &serde_json::Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(number).collect()
}

pub fn ids(value: &serde_json::Value) -> Vec<u32> {
    let ids = value.as_array().unwrap().iter();
    ids.map(|id| id.as_u64().unwrap() as u32).collect()
}

/// A row of a case, as a sequence of ours.
pub struct Sequence {
    pub ids: Vec<u32>,
    pub prompt_length: usize,
    unconditional: Option<Vec<f32>>,
    pub scores: Vec<f32>,
    pub expected: Vec<f32>,
}

/// An argument of a case as a value that passed the check of `field`.
fn checked(field: &str, value: &serde_json::Value) -> Checked {
    fields::find(field)
        .unwrap()
        .check(&Value::from(value))
        .unwrap()
}

fn tokens(value: &serde_json::Value) -> Vec<u32> {
    match checked("eos_token_id", value) {
        Checked::Tokens(ids) => ids,
        _ => unreachable!(),
    }
}

fn watermark(value: &serde_json::Value) -> WatermarkArguments {
    match checked("watermarking_config", value) {
        Checked::Watermark(arguments) => arguments,
        _ => unreachable!(),
    }
}

fn biases(value: &serde_json::Value) -> Vec<(Vec<u32>, f64)> {
    match checked("sequence_bias", value) {
        Checked::Biases(biases) => biases,
        _ => unreachable!(),
    }
}

/// The processor of a case, if it is one that needs nobody else.
fn built(class: &str, args: &serde_json::Value) -> Option<Rc<dyn Processor>> {
    let number = |name: &str| args[name].as_f64().unwrap();
    let count = |name: &str| args[name].as_u64().unwrap() as usize;
    let keep = args["min_tokens_to_keep"].as_u64().unwrap_or(1) as usize;
    let eos = || tokens(&args["eos_token_id"]);
    let words = |name: &str| {
        args[name]
            .as_array()
            .unwrap()
            .iter()
            .map(ids)
            .collect::<Vec<_>>()
    };
    Some(match class {
        "TemperatureLogitsWarper" => Rc::new(Temperature::new(number("temperature"))),
        "TopKLogitsWarper" => Rc::new(TopK::new(count("top_k"), keep)),
        "TopPLogitsWarper" => Rc::new(TopP::new(number("top_p"), keep)),
        "MinPLogitsWarper" => Rc::new(MinP::new(number("min_p"), keep)),
        "TopHLogitsWarper" => Rc::new(TopH::new(number("top_h"))),
        "TypicalLogitsWarper" => Rc::new(Typical::new(number("mass"), keep)),
        "EpsilonLogitsWarper" => Rc::new(Cutoff::epsilon(number("epsilon"), keep)),
        "EtaLogitsWarper" => Rc::new(Cutoff::eta(number("epsilon"), keep)),
        "RepetitionPenaltyLogitsProcessor" => Rc::new(RepetitionPenalty::new(number("penalty"))),
        "EncoderRepetitionPenaltyLogitsProcessor" => {
            Rc::new(EncoderRepetitionPenalty::new(number("penalty")))
        }
        "NoRepeatNGramLogitsProcessor" => Rc::new(NoRepeatNgram::new(count("ngram_size"))),
        "EncoderNoRepeatNGramLogitsProcessor" => {
            Rc::new(EncoderNoRepeatNgram::new(count("encoder_ngram_size")))
        }
        "NoBadWordsLogitsProcessor" => {
            let eos = args.get("eos_token_id").map_or(Vec::new(), tokens);
            Rc::new(BadWords::new(&words("bad_words_ids"), &eos))
        }
        "SequenceBiasLogitsProcessor" => Rc::new(SequenceBias::new(biases(&args["sequence_bias"]))),
        "MinLengthLogitsProcessor" => Rc::new(MinLength::length(count("min_length"), &eos())),
        "MinNewTokensLengthLogitsProcessor" => {
            Rc::new(MinLength::new_tokens(count("min_new_tokens"), &eos()))
        }
        "ForcedBOSTokenLogitsProcessor" => Rc::new(ForcedBos::new(count("bos_token_id") as u32)),
        "ForcedEOSTokenLogitsProcessor" => {
            let limit = Limit {
                new_tokens: usize::MAX,
                length: count("max_length"),
            };
            Rc::new(ForcedEos::new(limit, &eos()))
        }
        "SuppressTokensLogitsProcessor" => {
            Rc::new(SuppressTokens::new(&ids(&args["suppress_tokens"])))
        }
        "SuppressTokensAtBeginLogitsProcessor" => {
            let ids = ids(&args["begin_suppress_tokens"]);
            Rc::new(BeginSuppressTokens::new(&ids, false))
        }
        "ExponentialDecayLengthPenalty" => {
            let pair = &args["exponential_decay_length_penalty"];
            let pair = (
                pair[0].as_u64().unwrap() as usize,
                pair[1].as_f64().unwrap(),
            );
            Rc::new(ExponentialDecay::new(pair, &eos()))
        }
        "LogitNormalization" => Rc::new(Renormalize),
        "InfNanRemoveLogitsProcessor" => Rc::new(RemoveInvalid),
        "UnbatchedClassifierFreeGuidanceLogitsProcessor" => {
            Rc::new(Guidance::new(number("guidance_scale")))
        }
        "WatermarkLogitsProcessor" => {
            let mut arguments = args.clone();
            arguments
                .as_object_mut()
                .unwrap()
                .shift_remove("vocab_size");
            Rc::new(Watermark::new(watermark(&arguments)))
        }
        _ => return None,
    })
}

/// Fails at the first score that differs: masks exactly, numbers by 1e-5 relative to at least 1.
pub fn difference(found: &[f32], expected: &[f32]) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!(
            "{} scores, expected {}",
            found.len(),
            expected.len()
        ));
    }
    let pairs = found.iter().zip(expected).enumerate();
    let mut wrong = pairs.filter(|(_, (found, expected))| {
        let both_nan = found.is_nan() && expected.is_nan();
        let close = (**found - **expected).abs() <= 1e-5 * expected.abs().max(1.0);
        !(both_nan || found == expected || (found.is_finite() && expected.is_finite() && close))
    });
    wrong
        .next()
        .map(|(id, (found, expected))| format!("token {id}: {found}, expected {expected}"))
}

/// The rows of a case. What Hugging Face passes beside the ids lies in the sequence here: the prompt is
/// what it calls the encoder's ids, and padding, which it must ignore, is not there.
pub fn sequences(case: &serde_json::Value) -> Vec<Sequence> {
    let args = &case["args"];
    let rows = case["scores_in"].as_array().unwrap().len();
    let sequence = |at: usize| {
        let mut sequence_ids = ids(&case["input_ids"][at]);
        let mut prompt_length = sequence_ids.len();
        for length in [
            "prompt_length_to_skip",
            "input_ids_seq_length",
            "begin_index",
        ] {
            if let Some(length) = args[length].as_u64() {
                prompt_length = length as usize;
            }
        }
        if let Some(length) = case["prompt_length"].as_u64() {
            prompt_length = length as usize;
        }
        let ignored = match &args["prompt_ignore_length"] {
            serde_json::Value::Array(lengths) => lengths[at].as_u64().unwrap(),
            length => length.as_u64().unwrap_or(0),
        };
        sequence_ids.drain(..ignored as usize);
        if args.get("encoder_input_ids").is_some() {
            let prompt = ids(&args["encoder_input_ids"][at]);
            prompt_length = prompt.len();
            sequence_ids = [prompt, sequence_ids].concat();
        }
        let unconditional = args["unconditional_logits"].as_array();
        Sequence {
            prompt_length: prompt_length.min(sequence_ids.len()),
            ids: sequence_ids,
            unconditional: unconditional.map(|rows| row(&rows[at])),
            scores: row(&case["scores_in"][at]),
            expected: row(&case["scores_out"][at]),
        }
    };
    (0..rows).map(sequence).collect()
}

/// Where `case` and what we make of it part.
fn run(case: &serde_json::Value) -> Result<(), String> {
    match case["class"].as_str().unwrap() {
        "chain" => run_chain(case),
        "PrefixConstrainedLogitsProcessor" => run_prefix(case),
        class => run_one(class, case),
    }
}

fn run_one(class: &str, case: &serde_json::Value) -> Result<(), String> {
    let processor = built(class, &case["args"]).ok_or("there is no such processor")?;
    let mut scratch = Scratch::default();
    for sequence in sequences(case) {
        let mut scores = sequence.scores;
        let context = Context {
            ids: &sequence.ids,
            prompt_length: sequence.prompt_length,
            sequence: 0,
            unconditional: sequence.unconditional.as_deref(),
        };
        processor.process(&context, &mut scores, &mut scratch);
        difference(&scores, &sequence.expected).map_or(Ok(()), Err)?;
    }
    Ok(())
}

/// Hugging Face's names of what runs in chains, and ours.
const STAGES: [(&str, &str); 24] = [
    ("SequenceBiasLogitsProcessor", "sequence_bias"),
    (
        "EncoderRepetitionPenaltyLogitsProcessor",
        "encoder_repetition_penalty",
    ),
    ("RepetitionPenaltyLogitsProcessor", "repetition_penalty"),
    ("NoRepeatNGramLogitsProcessor", "no_repeat_ngram_size"),
    (
        "EncoderNoRepeatNGramLogitsProcessor",
        "encoder_no_repeat_ngram_size",
    ),
    ("NoBadWordsLogitsProcessor", "bad_words_ids"),
    ("MinLengthLogitsProcessor", "min_length"),
    ("MinNewTokensLengthLogitsProcessor", "min_new_tokens"),
    ("ForcedBOSTokenLogitsProcessor", "forced_bos_token_id"),
    ("ForcedEOSTokenLogitsProcessor", "forced_eos_token_id"),
    ("InfNanRemoveLogitsProcessor", "remove_invalid_values"),
    (
        "ExponentialDecayLengthPenalty",
        "exponential_decay_length_penalty",
    ),
    ("SuppressTokensLogitsProcessor", "suppress_tokens"),
    (
        "SuppressTokensAtBeginLogitsProcessor",
        "begin_suppress_tokens",
    ),
    ("TemperatureLogitsWarper", "temperature"),
    ("TopHLogitsWarper", "top_h"),
    ("TopKLogitsWarper", "top_k"),
    ("TopPLogitsWarper", "top_p"),
    ("MinPLogitsWarper", "min_p"),
    ("TypicalLogitsWarper", "typical_p"),
    ("EpsilonLogitsWarper", "epsilon_cutoff"),
    ("EtaLogitsWarper", "eta_cutoff"),
    ("WatermarkLogitsProcessor", "watermarking_config"),
    ("LogitNormalization", "renormalize_logits"),
];

fn run_chain(case: &serde_json::Value) -> Result<(), String> {
    let order = case["order"].as_array().unwrap().iter().map(|class| {
        let ours = STAGES.iter().find(|(theirs, _)| class == theirs);
        ours.map(|(_, name)| *name).unwrap()
    });
    // A minimum of new tokens is a minimum length to Hugging Face too, in a second processor that does
    // the same.
    let newer = case["config"].get("min_new_tokens").is_some();
    let order: Vec<_> = order
        .filter(|name| !newer || *name != "min_length")
        .collect();
    let config = Value::from(&case["config"]);
    for sequence in sequences(case) {
        let row = Row {
            ids: &sequence.ids,
            prompt_length: sequence.prompt_length,
            eos_token_ids: &[1],
            unconditional: None,
        };
        let steps = apply_processors(&sequence.scores, row, &config).map_err(|e| e.to_string())?;
        let names: Vec<_> = steps.iter().map(|step| step.name).collect();
        if names != order {
            return Err(format!("{names:?}, expected {order:?}"));
        }
        let last = &steps.last().unwrap().scores;
        difference(last, &sequence.expected).map_or(Ok(()), Err)?;
    }
    Ok(())
}

fn cases() -> Vec<serde_json::Value> {
    let text = fs::read_to_string(golden::folder().join("processors.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn processors_equal_hugging_face() {
    let mut passed = BTreeMap::<String, usize>::new();
    let mut failed = Vec::new();
    for (at, case) in cases().iter().enumerate() {
        let class = case["class"].as_str().unwrap();
        match run(case) {
            Ok(()) => *passed.entry(class.to_owned()).or_default() += 1,
            Err(why) => failed.push(format!(
                "{at} {class} {} {}: {why}",
                case["args"], case["config"]
            )),
        }
    }
    let count: usize = passed.values().sum();
    println!(
        "processors.jsonl: {count} passed, {} failed: {passed:?}",
        failed.len()
    );
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(count, 118);
}

/// One changed score in any case must be seen.
#[test]
fn each_case_notices_a_changed_score() {
    for mut case in cases() {
        let last = case["scores_out"].as_array().unwrap().len() - 1;
        let scores = case["scores_out"][last].as_array_mut().unwrap();
        let at = scores.len() / 2;
        scores[at] = match scores[at].as_f64() {
            Some(score) => json!(score + score.abs().max(1.0) * 1e-3),
            None => json!(1.5),
        };
        assert!(run(&case).is_err(), "{}", case["class"]);
    }
}

#[test]
fn the_comparison_notices_what_it_must() {
    let row = [1.0, -2.0, f32::NEG_INFINITY];
    assert_eq!(difference(&row, &row), None);
    assert!(difference(&[1.0001, -2.0, f32::NEG_INFINITY], &row).is_some());
    assert!(difference(&[1.0, 2.0, f32::NEG_INFINITY], &row).is_some());
    assert!(difference(&[1.0, -2.0, -1e30], &row).is_some());
    assert!(difference(&[1.0, f32::NEG_INFINITY, f32::NEG_INFINITY], &row).is_some());
    assert!(difference(&[f32::NAN, -2.0, f32::NEG_INFINITY], &row).is_some());
    assert!(difference(&row[..2], &row).is_some());
    assert!(difference(&[], &row).is_some());
}
