/**
 * What the page and the engine say to each other.
 *
 * One control port carries loading and calls with one answer; every generation has a port of its own.
 * On that port the page grants events one by one, and the engine computes at most {@link RUN_AHEAD}
 * beyond what was granted: a consumer that stops pulling stops the work.
 */

import type { WireError } from "./errors.js";
import type { Plain } from "./plain.js";
import type {
  GenerationEvent,
  GenerationResult,
  LoadOptions,
  LoadProgress,
  ModelInfo,
} from "./types.js";

/** Events that the engine computes before they are asked for. */
export const RUN_AHEAD = 1;

/** Where the bytes of one file are. */
export type Place = { url: string } | { blob: Blob };

/** Where a model is, after the page has read the caller's words. */
export type WireSource =
  | { kind: "gguf"; files: Place[] }
  /** A folder's URL, or files by name; `name` is what the model is called, as far as the place says. */
  | { kind: "checkpoint"; folder: string | Record<string, Blob>; name: string };

/** The load options that the engine's side needs, all given. */
export interface WireLoadOptions {
  device: NonNullable<LoadOptions["device"]>;
  contextLength: number | null;
  kvCache: NonNullable<LoadOptions["kvCache"]>;
  quantize: LoadOptions["quantize"] | null;
  activations: NonNullable<LoadOptions["activations"]>;
  threads: number;
  /** Whether the caller asked for that many. */
  asked: boolean;
  /** Why there is one thread, where nobody has asked for that. */
  alone: string | null;
  cache: NonNullable<LoadOptions["cache"]>;
}

/** What a model knows about itself once it is loaded. */
export interface Loaded {
  info: ModelInfo;
  generationConfig: { [key: string]: Plain };
}

/** What a generation is asked for. */
export interface WireCall {
  input: Plain;
  config: Plain;
  /** Arguments that are plain data. */
  arguments: Plain;
  /** The model that drafts. */
  assistant: number | null;
  /** The caller's own functions, which the engine asks on the stream's port. */
  functions: Functions | null;
}

/** How many functions of the caller's there are of each kind. */
export interface Functions {
  processors: number;
  criteria: number;
  restricts: boolean;
}

/** What one of the caller's functions is asked. */
export type Question =
  | {
      type: "logits_processor" | "stopping_criteria";
      /** The function's place in its list. */
      index: number;
      sequence: number;
      input_ids: Uint32Array;
      scores: Float32Array;
    }
  | { type: "prefix_allowed_tokens_fn"; batch_id: number; input_ids: Uint32Array };

/** What it answers: scores, token ids, or whether the sequence ends. */
export type Answer = Float32Array | Uint32Array | boolean;

/** Calls with one answer: arguments, answer. */
export interface Calls {
  explain: [args: [config: Plain], answer: unknown];
  stats: [args: [], answer: unknown];
  encode: [args: [text: string, addSpecialTokens: boolean], answer: number[]];
  decode: [args: [ids: number[], skipSpecialTokens: boolean], answer: string];
  chat: [args: [messages: Plain, options: Plain], answer: string];
  forward: [args: [ids: number[]], answer: { data: Float32Array; shape: [number, number] }];
}

/** From the page to the engine. */
export type ToEngine =
  | {
      type: "load";
      /** By which another model of the same engine finds this one. */
      model: number;
      source: WireSource;
      options: WireLoadOptions;
      fetch: MessagePort | null;
    }
  /** Serve another model, on this port. */
  | { type: "share"; port: MessagePort }
  | { type: "abort" }
  | { [M in keyof Calls]: { type: "call"; id: number; method: M; args: Calls[M][0] } }[keyof Calls]
  | ({ type: "generate"; port: MessagePort } & WireCall)
  | { type: "close" };

/** From the engine to the page. */
export type ToPage =
  | { type: "progress"; progress: LoadProgress }
  | { type: "loaded"; loaded: Loaded }
  | { type: "failed"; error: WireError }
  | { type: "answer"; id: number; value: unknown }
  | { type: "refused"; id: number; error: WireError }
  | { type: "dead"; error: WireError }
  | { type: "closed" };

/** From a stream's consumer to its producer. */
export type ToProducer =
  /** One more event is wanted. */
  | { type: "pull" }
  /** All further events are wanted. */
  | { type: "drain" }
  /** What one of the caller's functions says. */
  | { type: "answer"; answer: Answer }
  /** It has thrown, or said what it may not. */
  | { type: "failed"; message: string }
  /** End the work; the answer so far is the result. */
  | { type: "stop" };

/** From a stream's producer to its consumer; `end` and `error` are the last. */
export type ToConsumer =
  | { type: "event"; event: GenerationEvent }
  | { type: "ask"; question: Question }
  | { type: "end"; result: GenerationResult }
  | { type: "error"; error: WireError };

/** A port, a worker, or a worker's own global: whatever messages can be sent to. */
export interface Endpoint<Out, In> {
  postMessage(message: Out, transfer?: Transferable[]): void;
  addEventListener(type: "message", listener: (event: MessageEvent<In>) => void): void;
}
