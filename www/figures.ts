/** Figures: what one call did, and what all calls of a model did together. */

import type { StopReason } from "./types.js";

/** Tokens read and written, over all sequences of a call. */
export interface Usage {
  prompt_tokens: number;
  /** End tokens included. */
  completion_tokens: number;
  /** Tokens of the prompts whose keys and values were still in the cache. */
  cached_tokens: number;
}

/**
 * Where a call's time went, and what the device did for it. Time counts only while a step is being
 * computed, not while the caller looks at an event; rates are null where nothing was measured.
 */
export interface Timings {
  /** From the first pull to the first token. */
  time_to_first_token_ms: number | null;
  /** In steps that evaluated tokens of a prompt. */
  prefill_ms: number;
  /** In other steps. */
  decode_ms: number;
  /** Tokens of prompts evaluated. */
  prefill_tokens: number;
  /** Tokens made by decode steps. */
  decode_tokens: number;
  prefill_tokens_per_second: number | null;
  decode_tokens_per_second: number | null;
  /** Forward passes. */
  forwards: number;
  /** Kernel dispatches. */
  dispatches: number;
  /** Queue submissions. */
  submits: number;
  /** Bytes written to the device: what a step is about, never weights. */
  bytes_uploaded: number;
  /** Bytes of scores or choices read back. */
  bytes_read: number;
  /** The most steps that were on the device while their tokens were not known. */
  run_ahead: number;
  /** Steps that were computed after all their sequences had ended. */
  steps_wasted: number;
  /**
   * With `profile`: the device's time by kernel, the longest first. What was computed for nobody is no part of
   * it, nor what an `assistant_model` proposed. Browsers round timestamps, Chromium to 0.1 ms unless it is told
   * otherwise, so that only sums over many dispatches mean something.
   */
  kernels?: KernelTime[];
}

/** What the dispatches of one kernel took together. */
export interface KernelTime {
  /** The stem of its shader and, after a full stop, the format it reads; on the CPU the operation. */
  name: string;
  dispatches: number;
  /** Of the device's own time. */
  ms: number;
}

/** What a model has done since it was loaded. Rates and times are null where nothing was measured. */
export interface Stats {
  /** Calls that ended, aborted and failed ones included. */
  generations: number;
  /** Calls that ended in an error. */
  failures: number;
  usage: Usage;
  prefill_tokens_per_second: number | null;
  decode_tokens_per_second: number | null;
  /** Of the last call that had a token. */
  time_to_first_token_ms: number | null;
  /** Averaged over all calls that had one. */
  mean_time_to_first_token_ms: number | null;
  /** Bytes of the key-value cache. */
  cache_bytes_reserved: number;
  /** Bytes of it that running sequences hold. */
  cache_bytes_used: number;
  /** Bytes of it that hold the last answer, for a prompt that begins alike; free for any other. */
  cache_bytes_retained: number;
  /** The share of ended sequences that a limit cut short. */
  truncation_rate: number | null;
  /** Ended sequences by reason. */
  stop_reasons: Partial<Record<StopReason, number>>;
}
