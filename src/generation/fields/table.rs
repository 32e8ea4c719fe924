//! The table of options.

use super::{
    Field,
    Kind::{Boolean, Integer, Number, Texts, Token, Tokens},
    Range,
    Status::{self, Honoured, Metadata, Refused},
};

/// Every option, in the order of the Hugging Face documentation.
#[rustfmt::skip] // a table is read by columns
pub const FIELDS: &[Field] = &[
    // length
    field("max_length", "number", "20", Honoured(Integer(1)), "tokens of prompt and answer together; without any limit, 20 new tokens"),
    field("max_new_tokens", "number", "null", Honoured(Integer(1)), "tokens of the answer; wins over max_length"),
    field("min_length", "number", "0", Refused(LATER), "no end token before prompt and answer have this many tokens"),
    field("min_new_tokens", "number", "null", Refused(LATER), "no end token before the answer has this many tokens"),
    field("early_stopping", "boolean | \"never\"", "false", Refused(BEAMS), "when beam search may stop"),
    field("max_time", "number", "null", Honoured(Number(Range::NotNegative)), "seconds after which no further token is begun"),
    field("stop_strings", "string | string[]", "null", Honoured(Texts), "texts that end the answer; they are not part of it"),
    // strategy
    field("do_sample", "boolean", "false", Honoured(Boolean), "draw each token from the distribution, instead of taking the most probable one"),
    field("num_beams", "number", "1", Refused(BEAMS), "beams of beam search"),
    field("use_mtp", "boolean", "null", Refused(ASSISTED), "draft with the model's multi-token prediction heads"),
    // cache
    field("use_cache", "boolean", "true", Refused(LATER), "keep keys and values of earlier positions"),
    field("cache_implementation", "string", "null", Refused(LATER), "kind of key-value cache"),
    field("cache_config", "Record<string, unknown>", "null", Refused(LATER), "arguments of the cache"),
    field("max_cache_len", "number", "null", Refused(LATER), "positions of a static cache"),
    // logits
    field("temperature", "number", "1.0", Honoured(Number(Range::Positive)), "scores are divided by it; below 1 sharpens, above 1 flattens"),
    field("top_k", "number", "50", Honoured(Integer(0)), "keep the k best tokens and those tied with the last; 0 keeps all"),
    field("top_p", "number", "1.0", Honoured(Number(Range::UnitInterval)), "keep the smallest set of best tokens that has this probability"),
    field("min_p", "number", "null", Honoured(Number(Range::UnitInterval)), "drop tokens less probable than this share of the best token's probability"),
    field("top_h", "number", "null", Refused(LATER), "entropy budget of the kept tokens"),
    field("typical_p", "number", "1.0", Refused(LATER), "keep the most typical tokens that have this probability"),
    field("epsilon_cutoff", "number", "0.0", Refused(LATER), "drop tokens less probable than this"),
    field("eta_cutoff", "number", "0.0", Refused(LATER), "drop tokens less probable than a bound that follows the entropy"),
    field("repetition_penalty", "number", "1.0", Honoured(Number(Range::Positive)), "tokens seen before: positive scores are divided by it, negative ones multiplied"),
    field("encoder_repetition_penalty", "number", "1.0", Refused(LATER), "favours tokens of the prompt"),
    field("length_penalty", "number", "1.0", Refused(BEAMS), "exponent of the length by which beam scores are divided"),
    field("no_repeat_ngram_size", "number", "0", Refused(LATER), "no sequence of this many tokens occurs twice"),
    field("bad_words_ids", "number[][]", "null", Refused(LATER), "token sequences that never occur"),
    field("renormalize_logits", "boolean", "false", Refused(LATER), "normalise scores after all processors"),
    field("forced_bos_token_id", "number", "null", Refused(LATER), "first token of the answer"),
    field("forced_eos_token_id", "number | number[]", "null", Refused(LATER), "last token when the length limit is reached"),
    field("remove_invalid_values", "boolean", "false", Refused(LATER), "replace NaN and infinite scores"),
    field("exponential_decay_length_penalty", "[number, number]", "null", Refused(LATER), "favours the end token more and more from a length on"),
    field("suppress_tokens", "number[]", "null", Refused(LATER), "tokens that never occur"),
    field("begin_suppress_tokens", "number[]", "null", Refused(LATER), "tokens that never begin the answer"),
    field("sequence_bias", "[number[], number][]", "null", Refused(LATER), "added to the score of a token that would complete the sequence"),
    field("token_healing", "boolean", "false", Refused(LATER), "let the last token of the prompt be completed"),
    field("guidance_scale", "number", "null", Refused(LATER), "strength of classifier-free guidance"),
    field("watermarking_config", "Record<string, unknown>", "null", Refused(LATER), "watermark of the answer"),
    field("seed", "number", "null", Honoured(Integer(0)), "seed of the draws (an extension); without it each call draws its own and reports it in the plan"),
    // output
    field("num_return_sequences", "number", "1", Refused(LATER), "answers to each prompt"),
    field("output_attentions", "boolean", "false", Refused(OUTPUTS), "return attention weights"),
    field("output_hidden_states", "boolean", "false", Refused(OUTPUTS), "return hidden states"),
    field("output_scores", "boolean", "false", Refused(OUTPUTS), "return processed scores"),
    field("output_logits", "boolean", "false", Refused(OUTPUTS), "return unprocessed scores"),
    field("return_dict_in_generate", "boolean", "false", Refused(OUTPUTS), "return an object; here the result always is one"),
    // special ids
    field("pad_token_id", "number", "null", Honoured(Token), "padding; sequences are returned at their own lengths, so nothing is padded"),
    field("bos_token_id", "number", "null", Honoured(Token), "where the call names it, an empty prompt begins with it"),
    field("eos_token_id", "number | number[]", "null", Honoured(Tokens), "tokens that end the answer; an empty list means that none does"),
    // encoder-decoder models
    field("encoder_no_repeat_ngram_size", "number", "0", Refused(LATER), "no sequence of this many tokens is copied from the prompt"),
    field("decoder_start_token_id", "number | number[]", "null", Refused(ENCODER), "first token of the decoder"),
    // assisted decoding
    field("is_assistant", "boolean", "null", Refused(ASSISTED), "whether the model drafts for another"),
    field("num_assistant_tokens", "number", "20", Refused(ASSISTED), "tokens of a draft"),
    field("num_assistant_tokens_schedule", "string", "\"constant\"", Refused(ASSISTED), "how the length of drafts adapts"),
    field("assistant_confidence_threshold", "number", "0.4", Refused(ASSISTED), "probability below which a draft ends"),
    field("prompt_lookup_num_tokens", "number", "null", Refused(ASSISTED), "tokens of a draft copied from the prompt"),
    field("max_matching_ngram_size", "number", "null", Refused(ASSISTED), "longest match that prompt lookup tries"),
    field("assistant_early_exit", "number", "null", Refused(ASSISTED), "layer after which the model drafts for itself"),
    field("assistant_lookbehind", "number", "10", Refused(ASSISTED), "tokens compared when tokenizers differ"),
    field("target_lookbehind", "number", "10", Refused(ASSISTED), "tokens compared when tokenizers differ"),
    field("assistant_ensemble_weight", "number", "null", Refused(ASSISTED), "weight of the model against its assistant"),
    field("speculation_type", "string", "null", Refused(ASSISTED), "kind of speculation"),
    // performance
    field("compile_config", "Record<string, unknown>", "null", Refused(PYTORCH), "arguments of the compiler"),
    field("disable_compile", "boolean", "null", Refused(PYTORCH), "never compile"),
    field("continuous_batching_config", "Record<string, unknown>", "null", Refused(PYTORCH), "arguments of the server"),
    field("low_memory", "boolean", "null", Refused(MOVED), "contrastive search in parts"),
    field("prefill_chunk_size", "number", "null", Refused(LATER), "tokens of the prompt evaluated at once"),
    // recipes that left the library
    field("penalty_alpha", "number", "null", Refused(MOVED), "contrastive search"),
    field("dola_layers", "string | number[]", "null", Refused(MOVED), "decoding by contrasting layers"),
    field("diversity_penalty", "number", "0.0", Refused(MOVED), "group beam search"),
    field("num_beam_groups", "number", "1", Refused(MOVED), "group beam search"),
    field("constraints", "unknown[]", "null", Refused(MOVED), "constrained beam search"),
    field("force_words_ids", "number[][]", "null", Refused(MOVED), "constrained beam search"),
    // what files say about themselves
    field("transformers_version", "string", "null", Metadata, "version that wrote the file"),
    field("_from_model_config", "boolean", "false", Metadata, "whether the file was derived from config.json"),
];

const LATER: &str = "this version does not implement it";
const BEAMS: &str = "this version has no beam search";
const ASSISTED: &str = "this version has no assisted decoding";
const ENCODER: &str = "it belongs to encoder-decoder models";
const PYTORCH: &str = "it tunes PyTorch and has no meaning in a page";
const MOVED: &str = "transformers moved it out of the library";
const OUTPUTS: &str = "this version returns ids and text only";

const fn field(
    name: &'static str,
    typescript: &'static str,
    default: &'static str,
    status: Status,
    doc: &'static str,
) -> Field {
    Field {
        name,
        typescript,
        default,
        status,
        doc,
    }
}
