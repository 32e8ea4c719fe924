/** Generation options, with Hugging Face's names and meanings. */

export interface GenerationConfig {
  /** Draw tokens at random instead of taking the best. */
  do_sample?: boolean;
  temperature?: number;
  top_k?: number;
  top_p?: number;
  min_p?: number;
  repetition_penalty?: number;
  max_new_tokens?: number;
  max_length?: number;
  max_time?: number;
  stop_strings?: string | readonly string[];
  eos_token_id?: number | readonly number[];
  seed?: number;
}
