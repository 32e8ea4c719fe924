/**
 * Generation options, with Hugging Face's names and meanings.
 *
 * Written by `UPDATE=1 cargo test --test native typescript` from the table in `src/generation/fields`.
 */

/** Options of a call. One that is not given, or null, falls back to the model's own, then to the default. */
export interface GenerationConfig {
  /** Tokens of prompt and answer together; without any limit, 20 new tokens. Default 20. */
  max_length?: number | null;
  /** Tokens of the answer; wins over max_length. */
  max_new_tokens?: number | null;
  /** Seconds after which no further token is begun. */
  max_time?: number | null;
  /** Texts that end the answer; they are not part of it. */
  stop_strings?: string | readonly string[] | null;
  /** Draw each token from the distribution, instead of taking the most probable one. Default false. */
  do_sample?: boolean | null;
  /** Scores are divided by it; below 1 sharpens, above 1 flattens. Default 1.0. */
  temperature?: number | null;
  /** Keep the k best tokens and those tied with the last; 0 keeps all. Default 50. */
  top_k?: number | null;
  /** Keep the smallest set of best tokens that has this probability. Default 1.0. */
  top_p?: number | null;
  /** Drop tokens less probable than this share of the best token's probability. */
  min_p?: number | null;
  /** Tokens seen before: positive scores are divided by it, negative ones multiplied. Default 1.0. */
  repetition_penalty?: number | null;
  /** Seed of the draws (an extension); without it each call draws its own and reports it in the plan. */
  seed?: number | null;
  /** Padding; sequences are returned at their own lengths, so nothing is padded. */
  pad_token_id?: number | null;
  /** Where the call names it, an empty prompt begins with it. */
  bos_token_id?: number | null;
  /** Tokens that end the answer; an empty list means that none does. */
  eos_token_id?: number | readonly number[] | null;
  /** Version that wrote the file. */
  transformers_version?: unknown;
  /** Whether the file was derived from config.json. Default false. */
  _from_model_config?: unknown;
}
