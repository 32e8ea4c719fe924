//! The table of options.

use super::{
    Field,
    Kind::{
        Biases, Boolean, BooleanOr, Choice, Decay, Integer, Number, OneOf, Sequences, SomeTokens,
        Texts, Token, TokenBiases, TokenList, Tokens, Watermark,
    },
    Range::{AboveZero, BelowOne, Between, Finite, NotNegative, OpenUnit, Positive, UnitInterval},
    Status::{self, Honoured, Metadata, Refused},
};

/// Every option, in the order of the Hugging Face documentation; extensions stand at the end.
#[rustfmt::skip] // a table is read by columns
pub const FIELDS: &[Field] = &[
    // length
    field("max_length", "number", "20", Honoured(Integer(1)), "tokens of prompt and answer together; without any limit, 20 new tokens"),
    field("max_new_tokens", "number", "null", Honoured(Integer(1)), "tokens of the answer; wins over max_length"),
    field("min_length", "number", "0", Honoured(Integer(0)), "no end token before prompt and answer have this many tokens"),
    field("min_new_tokens", "number", "null", Honoured(Integer(0)), "no end token before the answer has this many tokens; wins over min_length"),
    field("early_stopping", "boolean | \"never\"", "false", Honoured(BooleanOr("never")), "when beam search may stop"),
    field("max_time", "number", "null", Honoured(Number(NotNegative)), "seconds after which no further token is begun"),
    field("stop_strings", "string | readonly string[]", "null", Honoured(Texts), "texts that end the answer; they are not part of it"),
    // strategy
    field("do_sample", "boolean", "false", Honoured(Boolean), "draw each token from the distribution, instead of taking the most probable one"),
    field("num_beams", "number", "1", Honoured(Integer(1)), "beams of beam search; 1 is none"),
    field("use_mtp", "boolean", "null", Refused(HEADS), "draft with the model's multi-token prediction heads"),
    // cache
    field("use_cache", "boolean", "true", Honoured(Boolean), "keep keys and values of earlier positions, instead of computing them again"),
    field("cache_implementation", CACHES_TYPE, "null", Honoured(Choice(CACHES)), "kind of key-value cache"),
    field("cache_config", "Record<string, unknown>", "null", Refused(CACHE), "arguments of a quantised cache"),
    field("max_cache_len", "number", "null", Refused(CACHE), "positions of a static cache"),
    // logits
    field("temperature", "number", "1.0", Honoured(Number(Positive)), "scores are divided by it; below 1 sharpens, above 1 flattens"),
    field("top_k", "number", "50", Honoured(Integer(0)), "keep the k best tokens and those tied with the last; 0 keeps all"),
    field("top_p", "number", "1.0", Honoured(Number(UnitInterval)), "keep the smallest set of best tokens that has this probability"),
    field("min_p", "number", "null", Honoured(Number(UnitInterval)), "drop tokens less probable than this share of the best token's probability"),
    field("top_h", "number", "null", Honoured(Number(AboveZero)), "keep the best tokens that together have this share of the entropy"),
    field("typical_p", "number", "1.0", Honoured(Number(AboveZero)), "keep the most typical tokens that have this probability"),
    field("epsilon_cutoff", "number", "0.0", Honoured(Number(BelowOne)), "drop tokens less probable than this; 0 drops none"),
    field("eta_cutoff", "number", "0.0", Honoured(Number(BelowOne)), "drop tokens less probable than a bound that follows the entropy; 0 drops none"),
    field("repetition_penalty", "number", "1.0", Honoured(Number(Positive)), "tokens seen before: positive scores are divided by it, negative ones multiplied"),
    field("encoder_repetition_penalty", "number", "1.0", Honoured(Number(Positive)), "tokens of the prompt: positive scores are multiplied by it, negative ones divided"),
    field("length_penalty", "number", "1.0", Honoured(Number(Finite)), "exponent of the length by which the scores of beams are divided"),
    field("no_repeat_ngram_size", "number", "0", Honoured(Integer(0)), "no sequence of this many tokens occurs twice; 0 allows all"),
    field("bad_words_ids", "readonly (readonly number[])[]", "null", Honoured(Sequences), "token sequences that never occur"),
    field("renormalize_logits", "boolean", "false", Honoured(Boolean), "make the scores log-probabilities after all processors"),
    field("forced_bos_token_id", "number", "null", Honoured(Token), "the token after a prompt of one token"),
    field("forced_eos_token_id", "number | readonly number[]", "null", Honoured(SomeTokens), "the last token when the length limit is reached; of several, the lowest"),
    field("remove_invalid_values", "boolean", "false", Honoured(Boolean), "replace NaN by 0 and infinite scores by the greatest finite ones"),
    field("exponential_decay_length_penalty", "readonly [start: number, factor: number]", "null", Honoured(Decay), "favours the end token more and more, from this many new tokens on, by this factor"),
    field("suppress_tokens", "readonly number[]", "null", Honoured(TokenList), "tokens that never occur"),
    field("begin_suppress_tokens", "readonly number[]", "null", Honoured(TokenList), "tokens that never begin the answer"),
    field("sequence_bias", "readonly (readonly [ids: readonly number[], bias: number])[]", "null", Honoured(Biases), "added to the score of a token that would complete the sequence"),
    field("token_healing", "boolean", "false", Honoured(Boolean), "let the last token of the prompt be completed"),
    field("guidance_scale", "number", "null", Honoured(Number(Finite)), "strength of classifier-free guidance; 1 is none"),
    field("watermarking_config", WATERMARK_TYPE, "null", Honoured(Watermark), "favours tokens that whoever has the key can recognise (KGW; SynthID is not supported)"),
    // output
    field("num_return_sequences", "number", "1", Honoured(Integer(1)), "answers to each prompt"),
    field("output_attentions", "boolean", "false", Refused(INSIDE), "return attention weights"),
    field("output_hidden_states", "boolean", "false", Refused(INSIDE), "return hidden states"),
    field("output_scores", "boolean", "false", Honoured(Boolean), "return the processed scores of each step"),
    field("output_logits", "boolean", "false", Honoured(Boolean), "return the unprocessed scores of each step"),
    field("return_dict_in_generate", "boolean", "false", Honoured(Boolean), "return an object; here the result always is one"),
    // special ids
    field("pad_token_id", "number", "null", Honoured(Token), "padding; sequences are returned at their own lengths, so nothing is padded"),
    field("bos_token_id", "number", "null", Honoured(Token), "where the call names it, an empty prompt begins with it"),
    field("eos_token_id", "number | readonly number[]", "null", Honoured(Tokens), "tokens that end the answer; an empty list means that none does"),
    // encoder-decoder models
    field("encoder_no_repeat_ngram_size", "number", "0", Honoured(Integer(0)), "no sequence of this many tokens is copied from the prompt; 0 allows all"),
    field("decoder_start_token_id", "number | readonly number[]", "null", Refused(ENCODER), "first token of the decoder"),
    // assisted decoding
    field("is_assistant", "boolean", "null", Refused(ASSISTANT), "whether the model drafts for another"),
    field("num_assistant_tokens", "number", "20", Honoured(Integer(1)), "tokens of an assistant's draft"),
    field("num_assistant_tokens_schedule", "\"constant\" | \"heuristic\" | \"heuristic_transient\"", "\"constant\"", Honoured(Choice(&["constant", "heuristic", "heuristic_transient"])), "how the length of drafts adapts"),
    field("assistant_confidence_threshold", "number", "0.4", Honoured(Number(UnitInterval)), "probability below which an assistant's draft ends"),
    field("prompt_lookup_num_tokens", "number", "null", Honoured(Integer(1)), "tokens of a draft copied from the prompt"),
    field("max_matching_ngram_size", "number", "null", Honoured(Integer(1)), "longest match that prompt lookup tries; 2 unless given"),
    field("assistant_early_exit", "number", "null", Refused(HEADS), "layer after which the model drafts for itself"),
    field("assistant_lookbehind", "number", "10", Honoured(Integer(1)), "tokens of the assistant compared when tokenizers differ"),
    field("target_lookbehind", "number", "10", Honoured(Integer(1)), "tokens of the model compared when tokenizers differ"),
    field("assistant_ensemble_weight", "number", "null", Honoured(Number(OpenUnit)), "weight of the model against its assistant in what is accepted"),
    field("speculation_type", "string", "null", Refused(HEADS), "kind of speculation"),
    // performance
    field("compile_config", "Record<string, unknown>", "null", Refused(PYTORCH), "arguments of the compiler"),
    field("disable_compile", "boolean", "null", Refused(PYTORCH), "never compile"),
    field("continuous_batching_config", "Record<string, unknown>", "null", Refused(PYTORCH), "arguments of the server"),
    field("low_memory", "boolean", "null", Refused(MOVED), "contrastive search in parts"),
    field("prefill_chunk_size", "number", "null", Honoured(Integer(1)), "most tokens of a prompt that are evaluated at once"),
    // recipes that left the library
    field("penalty_alpha", "number", "null", Refused(MOVED), "contrastive search"),
    field("dola_layers", "string | number[]", "null", Refused(MOVED), "decoding by contrasting layers"),
    field("diversity_penalty", "number", "0.0", Refused(MOVED), "group beam search"),
    field("num_beam_groups", "number", "1", Refused(MOVED), "group beam search"),
    field("constraints", "unknown[]", "null", Refused(MOVED), "constrained beam search"),
    field("force_words_ids", "number[][]", "null", Refused(MOVED), "constrained beam search"),
    // extensions
    field("seed", "number", "null", Honoured(Integer(0)), "seed of the draws (an extension); without it each call draws its own and reports it in the plan"),
    field("logit_bias", "Readonly<Record<number, number>>", "null", Honoured(TokenBiases), "added to the scores of these tokens (an extension, of OpenAI's API)"),
    field("frequency_penalty", "number", "0.0", Honoured(Number(Between(-2.0, 2.0))), "taken from the score of a token for each time that the answer has it (an extension, of OpenAI's API)"),
    field("presence_penalty", "number", "0.0", Honoured(Number(Between(-2.0, 2.0))), "taken from the score of a token that the answer has (an extension, of OpenAI's API)"),
    field("dry_multiplier", "number", "0.0", Honoured(Number(NotNegative)), "penalty of a token that would prolong a repetition, \"don't repeat yourself\"; 0 is none (an extension, of text-generation-webui)"),
    field("dry_base", "number", "1.75", Honoured(Number(Between(1.0, 1e6))), "factor of that penalty for each further token of the repetition (an extension)"),
    field("dry_allowed_length", "number", "2", Honoured(Integer(1)), "tokens of a repetition that cost nothing (an extension)"),
    field("dry_penalty_last_n", "number", "0", Honoured(Integer(0)), "tokens in which repetitions are looked for; 0 looks in all (an extension, of llama.cpp)"),
    field("dry_sequence_breaker_ids", "readonly number[]", "null", Honoured(TokenList), "tokens that no repetition goes across (an extension)"),
    field("top_n_sigma", "number", "null", Honoured(Number(Positive)), "keep tokens at most this many standard deviations below the best score (an extension, Tang et al. 2024)"),
    field("xtc_probability", "number", "0.0", Honoured(Number(UnitInterval)), "how often the top choices are excluded (an extension, XTC of text-generation-webui)"),
    field("xtc_threshold", "number", "0.1", Honoured(Number(UnitInterval)), "probability of a top choice; the least probable of them stays (an extension)"),
    field("mirostat_mode", "0 | 2", "0", Honoured(OneOf(&[0, 2])), "2 truncates so that each token surprises about equally (an extension, Mirostat 2.0, Basu et al. 2021)"),
    field("mirostat_tau", "number", "5.0", Honoured(Number(Positive)), "surprise in bits that Mirostat aims at (an extension)"),
    field("mirostat_eta", "number", "0.1", Honoured(Number(Positive)), "how fast Mirostat adapts (an extension)"),
    field("top_logprobs", "number", "null", Honoured(Integer(0)), "with each token, its log-probability and those of this many best ones (an extension, of OpenAI's API)"),
    // what files say about themselves
    field("transformers_version", "string", "null", Metadata, "version that wrote the file"),
    field("_from_model_config", "boolean", "false", Metadata, "whether the file was derived from config.json"),
];

/// Hugging Face's kinds of cache.
#[rustfmt::skip]
const CACHES: &[&str] = &[
    "dynamic", "static", "offloaded", "offloaded_static", "quantized", "paged",
    "sliding_window", "hybrid", "hybrid_chunked", "offloaded_hybrid", "offloaded_hybrid_chunked",
];
const CACHES_TYPE: &str = "CacheImplementation";
const WATERMARK_TYPE: &str = "WatermarkingConfig";

const ASSISTANT: &str = "a model becomes an assistant by being passed as one";
const CACHE: &str = "size and type of the cache are chosen when the model is loaded";
const ENCODER: &str = "it belongs to encoder-decoder models";
const HEADS: &str =
    "it needs models with heads of their own for drafting, which this version does not load";
const INSIDE: &str = "what happens inside the model stays on the device";
const MOVED: &str = "transformers moved it out of the library";
const PYTORCH: &str = "it tunes PyTorch and has no meaning in a page";

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
