/**
 * Generation options, with Hugging Face's names and meanings.
 *
 * Written by `UPDATE=1 cargo test --test native typescript` from the table in `src/generation/fields`.
 */

import type { CacheImplementation, WatermarkingConfig } from "./types.js";

/** Options of a call. One that is not given, or null, falls back to the model's own, then to the default. */
export interface GenerationConfig {
  /** Tokens of prompt and answer together; without any limit, 20 new tokens. Default 20. */
  max_length?: number | null;
  /** Tokens of the answer; wins over max_length. */
  max_new_tokens?: number | null;
  /** No end token before prompt and answer have this many tokens. Default 0. */
  min_length?: number | null;
  /** No end token before the answer has this many tokens; wins over min_length. */
  min_new_tokens?: number | null;
  /** When beam search may stop. Default false. */
  early_stopping?: boolean | "never" | null;
  /** Seconds after which no further token is begun. */
  max_time?: number | null;
  /** Texts that end the answer; they are not part of it. */
  stop_strings?: string | readonly string[] | null;
  /** Draw each token from the distribution, instead of taking the most probable one. Default false. */
  do_sample?: boolean | null;
  /** Beams of beam search; 1 is none. Default 1. */
  num_beams?: number | null;
  /** Keep keys and values of earlier positions, instead of computing them again. Default true. */
  use_cache?: boolean | null;
  /** Kind of key-value cache. */
  cache_implementation?: CacheImplementation | null;
  /** Scores are divided by it; below 1 sharpens, above 1 flattens. Default 1.0. */
  temperature?: number | null;
  /** Keep the k best tokens and those tied with the last; 0 keeps all. Default 50. */
  top_k?: number | null;
  /** Keep the smallest set of best tokens that has this probability. Default 1.0. */
  top_p?: number | null;
  /** Drop tokens less probable than this share of the best token's probability. */
  min_p?: number | null;
  /** Keep the best tokens that together have this share of the entropy. */
  top_h?: number | null;
  /** Keep the most typical tokens that have this probability. Default 1.0. */
  typical_p?: number | null;
  /** Drop tokens less probable than this; 0 drops none. Default 0.0. */
  epsilon_cutoff?: number | null;
  /** Drop tokens less probable than a bound that follows the entropy; 0 drops none. Default 0.0. */
  eta_cutoff?: number | null;
  /** Tokens seen before: positive scores are divided by it, negative ones multiplied. Default 1.0. */
  repetition_penalty?: number | null;
  /** Tokens of the prompt: positive scores are multiplied by it, negative ones divided. Default 1.0. */
  encoder_repetition_penalty?: number | null;
  /** Exponent of the length by which the scores of beams are divided. Default 1.0. */
  length_penalty?: number | null;
  /** No sequence of this many tokens occurs twice; 0 allows all. Default 0. */
  no_repeat_ngram_size?: number | null;
  /** Token sequences that never occur. */
  bad_words_ids?: readonly (readonly number[])[] | null;
  /** Make the scores log-probabilities after all processors. Default false. */
  renormalize_logits?: boolean | null;
  /** The token after a prompt of one token. */
  forced_bos_token_id?: number | null;
  /** The last token when the length limit is reached; of several, the lowest. */
  forced_eos_token_id?: number | readonly number[] | null;
  /** Replace NaN by 0 and infinite scores by the greatest finite ones. Default false. */
  remove_invalid_values?: boolean | null;
  /** Favours the end token more and more, from this many new tokens on, by this factor. */
  exponential_decay_length_penalty?: readonly [start: number, factor: number] | null;
  /** Tokens that never occur. */
  suppress_tokens?: readonly number[] | null;
  /** Tokens that never begin the answer. */
  begin_suppress_tokens?: readonly number[] | null;
  /** Added to the score of a token that would complete the sequence. */
  sequence_bias?: readonly (readonly [ids: readonly number[], bias: number])[] | null;
  /** Let the last token of the prompt be completed. Default false. */
  token_healing?: boolean | null;
  /** Strength of classifier-free guidance; 1 is none. */
  guidance_scale?: number | null;
  /** Favours tokens that whoever has the key can recognise (KGW; SynthID is not supported). */
  watermarking_config?: WatermarkingConfig | null;
  /** Answers to each prompt. Default 1. */
  num_return_sequences?: number | null;
  /** Return the processed scores of each step. Default false. */
  output_scores?: boolean | null;
  /** Return the unprocessed scores of each step. Default false. */
  output_logits?: boolean | null;
  /** Return an object; here the result always is one. Default false. */
  return_dict_in_generate?: boolean | null;
  /** Padding; sequences are returned at their own lengths, so nothing is padded. */
  pad_token_id?: number | null;
  /** Where the call names it, an empty prompt begins with it. */
  bos_token_id?: number | null;
  /** Tokens that end the answer; an empty list means that none does. */
  eos_token_id?: number | readonly number[] | null;
  /** No sequence of this many tokens is copied from the prompt; 0 allows all. Default 0. */
  encoder_no_repeat_ngram_size?: number | null;
  /** Tokens of an assistant's draft. Default 20. */
  num_assistant_tokens?: number | null;
  /** How the length of drafts adapts. Default "constant". */
  num_assistant_tokens_schedule?: "constant" | "heuristic" | "heuristic_transient" | null;
  /** Probability below which an assistant's draft ends. Default 0.4. */
  assistant_confidence_threshold?: number | null;
  /** Tokens of a draft copied from the prompt. */
  prompt_lookup_num_tokens?: number | null;
  /** Longest match that prompt lookup tries; 2 unless given. */
  max_matching_ngram_size?: number | null;
  /** Tokens of the assistant compared when tokenizers differ. Default 10. */
  assistant_lookbehind?: number | null;
  /** Tokens of the model compared when tokenizers differ. Default 10. */
  target_lookbehind?: number | null;
  /** Weight of the model against its assistant in what is accepted. */
  assistant_ensemble_weight?: number | null;
  /** Most tokens of a prompt that are evaluated at once. */
  prefill_chunk_size?: number | null;
  /** Seed of the draws (an extension); without it each call draws its own and reports it in the plan. */
  seed?: number | null;
  /** Added to the scores of these tokens (an extension, of OpenAI's API). */
  logit_bias?: Readonly<Record<number, number>> | null;
  /** Taken from the score of a token for each time that the answer has it (an extension, of OpenAI's API). Default 0.0. */
  frequency_penalty?: number | null;
  /** Taken from the score of a token that the answer has (an extension, of OpenAI's API). Default 0.0. */
  presence_penalty?: number | null;
  /** Penalty of a token that would prolong a repetition, "don't repeat yourself"; 0 is none (an extension, of text-generation-webui). Default 0.0. */
  dry_multiplier?: number | null;
  /** Factor of that penalty for each further token of the repetition (an extension). Default 1.75. */
  dry_base?: number | null;
  /** Tokens of a repetition that cost nothing (an extension). Default 2. */
  dry_allowed_length?: number | null;
  /** Tokens in which repetitions are looked for; 0 looks in all (an extension, of llama.cpp). Default 0. */
  dry_penalty_last_n?: number | null;
  /** Tokens that no repetition goes across (an extension). */
  dry_sequence_breaker_ids?: readonly number[] | null;
  /** Keep tokens at most this many standard deviations below the best score (an extension, Tang et al. 2024). */
  top_n_sigma?: number | null;
  /** How often the top choices are excluded (an extension, XTC of text-generation-webui). Default 0.0. */
  xtc_probability?: number | null;
  /** Probability of a top choice; the least probable of them stays (an extension). Default 0.1. */
  xtc_threshold?: number | null;
  /** 2 truncates so that each token surprises about equally (an extension, Mirostat 2.0, Basu et al. 2021). Default 0. */
  mirostat_mode?: 0 | 2 | null;
  /** Surprise in bits that Mirostat aims at (an extension). Default 5.0. */
  mirostat_tau?: number | null;
  /** How fast Mirostat adapts (an extension). Default 0.1. */
  mirostat_eta?: number | null;
  /** With each token, its log-probability and those of this many best ones (an extension, of OpenAI's API). */
  top_logprobs?: number | null;
  /** Version that wrote the file. */
  transformers_version?: unknown;
  /** Whether the file was derived from config.json. Default false. */
  _from_model_config?: unknown;
}
