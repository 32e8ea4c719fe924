/**
 * Plain data at the public face: what goes in, what comes out.
 *
 * Names of generation options and results are Hugging Face's (snake_case); options that only a web
 * page has are JavaScript's (camelCase).
 */

import type { Timings, Usage } from "./figures.js";
import type { Model } from "./model.js";

/** One turn of a conversation. Templates may read further keys, such as `name` or `tool_calls`. */
export interface Message {
  role: string;
  content?: unknown;
  [key: string]: unknown;
}

/** One prompt: text, a conversation (rendered with the model's chat template), or token ids. */
export type Prompt = string | readonly Message[] | readonly number[];

/** What `generate` goes on from: one prompt, or a list of prompts that are answered together. */
export type Input = Prompt | readonly Prompt[];

/** Where the bytes of a model come from. */
export type Source = string | URL | Blob | readonly Blob[] | FileList;

/** What loading is busy with: bytes from the network, bytes from this machine, or kernels. */
export type LoadStage = "download" | "read" | "prepare";

/** How far loading is. */
export interface LoadProgress {
  /** What it is busy with. */
  stage: LoadStage;
  /** Bytes of the model that have reached the engine. */
  loaded: number;
  /** Bytes in all, or null while nobody has said. */
  total: number | null;
}

/** Options of {@link load}. */
export interface LoadOptions {
  /**
   * `"auto"` takes WebGPU on a graphics card, and the CPU where there is none or only an adapter that is itself
   * a program on the CPU; `info.reason` says why. `"webgpu"` takes any adapter. Default `"auto"`.
   */
  device?: "auto" | "webgpu" | "cpu";
  /** Positions for prompt and answer together. Default: the model's own, at most 4096. */
  contextLength?: number;
  /**
   * How the key-value cache stores its entries. Default `"f16"`. In a layer that convolves (of lfm2) a position takes
   * an entry as wide as the model, where in one of attention it takes keys and values: in f16 53 kB for
   * LFM2 1.2B with ten layers of the one kind and six of the other, which alone have 12 kB.
   */
  kvCache?: "f16" | "f32";
  /**
   * Make Q8_0 or Q4_0 of matrices of plain numbers while loading: a fraction of the memory, and a little less
   * exact. `info.notes` says what was done. Default: everything stays as it is stored.
   */
  quantize?: "q8_0" | "q4_0";
  /**
   * How activations meet quantised weights on the CPU: rounded to 16 bits in blocks of 32 with a scale (`"q16_0"`,
   * the default), for Q4_0, Q4_1 and Q4_K to 8 bits (`"q8_0"`: faster, but it spoils the answers of small models; an
   * emulation in PyTorch gives SmolLM2 135M the same wrong text), or as they are (`"f32"`: several times slower). On
   * WebGPU always `"f32"`.
   */
  activations?: "q16_0" | "q8_0" | "f32";
  /**
   * Threads of the CPU, 1 to 16; they compute the same answers, to the bit. More than one takes a page that is
   * cross-origin isolated, that is, served with the headers `Cross-Origin-Opener-Policy: same-origin` and
   * `Cross-Origin-Embedder-Policy: require-corp` or `credentialless`. Default there: half of the processors, but 2
   * of 2, and at most 8; elsewhere 1. On WebGPU none of them is used.
   */
  threads?: number;
  /** Where downloads are kept for the next visit: the page's private file system, or nowhere. Default `"opfs"`. */
  cache?: "opfs" | "none";
  /** Where Hub ids are looked up. Default `"https://huggingface.co"`. */
  hub?: string | URL;
  /** Used instead of the global `fetch`, for instance to add headers. */
  fetch?: typeof globalThis.fetch;
  /** Ends the loading; `load` then rejects with the signal's reason. */
  signal?: AbortSignal;
  /** Called as bytes arrive. */
  onProgress?: (progress: LoadProgress) => void;
  /**
   * Run the engine in a worker of its own, so that the page never waits; or beside another model in that
   * one's worker, so that one can assist the other. Default true.
   */
  worker?: boolean | Model;
}

/** Options of `generate` that are not about what is generated. */
export interface GenerateOptions {
  /** Ends the work; iterating and `result` then reject with the signal's reason. */
  signal?: AbortSignal;
  /**
   * A smaller model that proposes tokens, which this one then verifies several at a time: the answer stays
   * this model's own. It runs in the same worker (`load` with `worker: model`); its tokenizer may differ.
   */
  assistant_model?: Model;
  /** What `guidance_scale` leads away from: one prompt for all, or one for each. Default: the last token of the prompt. */
  negative_prompt?: Input;
  /** For prompts of token ids: 1 for each id that counts, 0 for padding, which stands on the left. */
  attention_mask?: readonly number[] | readonly (readonly number[])[];
  /** Functions that change scores, one after another, between the penalties and the filters of the config. */
  logits_processor?: readonly LogitsProcessor[];
  /** Functions that end sequences, asked after each token; the stop reason is then `"custom"`. */
  stopping_criteria?: readonly StoppingCriterion[];
  /** Says which tokens may come next. */
  prefix_allowed_tokens_fn?: PrefixAllowedTokens;
  /**
   * Measure how long the device takes for each kernel: `timings.kernels` of the result. The answer is the same
   * and comes later. An adapter without timestamps refuses it with an error of code `"unsupported"`.
   */
  profile?: boolean;
}

/**
 * Changes the scores of a sequence's next token. Returns the new scores, one for each token of the
 * vocabulary, or nothing where it changed those it was given. It may take its time and return a promise.
 */
export type LogitsProcessor = (
  /** Prompt and answer so far. */
  input_ids: Uint32Array,
  /** Its own copy. */
  scores: Float32Array,
  /** Which answer it is; with beams, which beam. */
  sequence: number,
) => ArrayLike<number> | void | Promise<ArrayLike<number> | void>;

/** Whether a sequence ends with its last token, which was chosen by `scores`. */
export type StoppingCriterion = (
  input_ids: Uint32Array,
  scores: Float32Array,
  sequence: number,
) => boolean | Promise<boolean>;

/** The tokens that may follow `input_ids`, at least one; `batch_id` is the place of the prompt in the call. */
export type PrefixAllowedTokens = (
  batch_id: number,
  input_ids: Uint32Array,
) => ArrayLike<number> | Promise<ArrayLike<number>>;

/** Options of `applyProcessors`. */
export interface ApplyOptions {
  /** How many of the ids are the prompt. Default: all of them. */
  prompt_length?: number;
  /** The scores after the negative prompt, which `guidance_scale` needs. */
  unconditional_scores?: ArrayLike<number>;
}

/** What one stage of a config did to a row of scores. */
export interface ProcessorStep {
  /** The option that asked for it. */
  name: string;
  /** What it was told. */
  args: Record<string, unknown>;
  /** Tokens that are not removed after it; a removed token has the score -Infinity. */
  kept: number;
  /** The scores after it. */
  scores: Float32Array;
}

/** What a config does to a row of scores. */
export interface AppliedProcessors {
  /** The scores after the last stage. */
  scores: Float32Array;
  /** Each stage in order. */
  steps: ProcessorStep[];
}

/** Hugging Face's kinds of key-value cache. */
export type CacheImplementation =
  | "dynamic"
  | "static"
  | "offloaded"
  | "offloaded_static"
  | "quantized"
  | "paged"
  | "sliding_window"
  | "hybrid"
  | "hybrid_chunked"
  | "offloaded_hybrid"
  | "offloaded_hybrid_chunked";

/** How a watermark is drawn; what is left out has the value of Hugging Face's `WatermarkingConfig`. */
export interface WatermarkingConfig {
  /** Share of the vocabulary that is favoured, from 0 to 1. Default 0.25. */
  greenlist_ratio?: number;
  /** Added to the scores of favoured tokens. Default 2. */
  bias?: number;
  /** The secret by which the watermark is found again. Default 15485863. */
  hashing_key?: number;
  /** Whether only the tokens before decide what is favoured, or also the next one itself. Default `"lefthash"`. */
  seeding_scheme?: "lefthash" | "selfhash";
  /** Tokens that decide. Default 1. */
  context_width?: number;
}

/**
 * A token, as soon as it is known. With beam search that is late: a prompt's tokens come together, one answer
 * after the other, once its answers are final.
 */
export interface GenerationEvent {
  /** Which answer it belongs to; 0 where there is one. */
  sequence: number;
  token_id: number;
  /** Text that can no longer change; empty while a character or a possible stop string is unfinished. */
  text: string;
  /** The token's log-probability among the processed scores, with `top_logprobs`. */
  logprob?: number;
  /** The best tokens, best first, as many as `top_logprobs` says; removed tokens are not among them. */
  top_logprobs?: TokenLogprob[];
}

/** A token and its natural log-probability. */
export interface TokenLogprob {
  token_id: number;
  logprob: number;
}

/** What became of the tokens that an assistant or prompt lookup proposed. */
export interface Speculation {
  drafted: number;
  /** Those that the model agreed to. */
  accepted: number;
  /** `accepted / drafted`; null where nothing was proposed. */
  acceptance_rate: number | null;
}

/** Why an answer ended. */
export type StopReason =
  | "eos"
  | "max_new_tokens"
  | "max_length"
  | "max_time"
  | "stop_string"
  | "custom"
  | "aborted"
  | "context_full";

/** The layer that an option's value came from. */
export type ValueSource =
  "call" | "generation_config.json" | "model config" | "library default" | "derived";

/** One stage of the plan: what it is called, what it was told, and which layer asked for it. */
export interface PlanStage {
  name: string;
  args: Record<string, unknown>;
  source: ValueSource;
}

/** A setting that does not do what its writer may expect. */
export interface PlanWarning {
  field: string;
  message: string;
}

/** What `generate` will do with a config, in plain data. */
export interface Plan {
  /** How tokens follow one another, by Hugging Face's name of the mode. */
  strategy: "greedy_search" | "sample" | "beam_search" | "beam_sample" | "assisted_generation";
  /** Every option with its value and who gave it. */
  values: Record<string, { value: unknown; source: ValueSource }>;
  /** What changes the scores, in order. */
  processors: PlanStage[];
  /** What chooses a token. */
  selection: { name: "greedy" | "multinomial"; args: { seed?: number } };
  /** What ends the answer, in order: the first that does names the reason. */
  stopping: PlanStage[];
  /** Where processors, selection and criteria run. */
  home: "device" | "host";
  /** What keeps the choice of tokens on the host: an option, or a few words. */
  home_reason: string | null;
  /** What was set and has no effect, or less than it says. */
  warnings: PlanWarning[];
}

/**
 * An answer. The lists have an entry for each sequence, of the first prompt all, best first in beam search,
 * then of the second; `text` and `stop_reason` are the first's.
 */
export interface GenerationResult {
  sequences: number[][];
  texts: string[];
  text: string;
  stop_reasons: StopReason[];
  stop_reason: StopReason;
  /** With beam search: the sum of log-probabilities, divided by the length to the power of `length_penalty`. */
  sequences_scores?: number[];
  /** With beam search: for each token, the beam that it was chosen from (prompt × num_beams + beam). */
  beam_indices?: number[][];
  /** With `output_scores`: for each token its processed score, in beam search its log-probability. */
  transition_scores?: number[][];
  /** With `top_logprobs`: for each token what its event says. */
  logprobs?: { logprob: number; top_logprobs: TokenLogprob[] }[][];
  /**
   * With `output_scores`: the processed scores of row and step, one for each id. Rows are the sequences, in
   * beam search the beams of each prompt; a row has no steps after its end.
   */
  scores?: Float32Array[][];
  /** With `output_logits`: the same before the processors. */
  logits?: Float32Array[][];
  /** With an assistant or prompt lookup. */
  speculation?: Speculation;
  usage: Usage;
  timings: Timings;
  plan: Plan;
}

/** What was loaded, and what runs it. */
export interface ModelInfo {
  /** The model's own name, or its architecture. */
  name: string;
  architecture: string;
  parameters: number;
  context_length: number;
  vocabulary: number;
  /** `"webgpu"` or `"cpu"`. */
  device: "webgpu" | "cpu";
  /** The adapter's own words. */
  adapter: string;
  /** Whether the adapter is a program on the CPU. */
  software: boolean;
  /** The threads that compute on the CPU; null on WebGPU. */
  threads: number | null;
  /** Why the model runs there. */
  reason: string;
  kv_cache: "f16" | "f32";
  weight_bytes: number;
  cache_bytes: number;
  /** What was chosen and why, a line each. */
  notes: string[];
  /** What did not go as asked, such as a cache without room. */
  warnings: string[];
}

/** Options of `tokenizer.apply_chat_template`; further keys become variables of the template. */
export interface ChatTemplateOptions {
  /** A template used instead of the model's own. */
  chat_template?: string;
  tools?: readonly unknown[];
  documents?: readonly unknown[];
  /** End with the beginning of an answer. Default false, as in Hugging Face. */
  add_generation_prompt?: boolean;
  /** Leave the last message open, so that the model goes on with it. */
  continue_final_message?: boolean;
  [variable: string]: unknown;
}

/** The logits of every position of an input. */
export interface Logits {
  /** `shape[0] × shape[1]` values, row after row. */
  data: Float32Array;
  /** Tokens, vocabulary. */
  shape: [tokens: number, vocabulary: number];
}
