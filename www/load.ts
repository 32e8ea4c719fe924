/** `load`: from a source and options to a model. */

import { Connection } from "./connection.js";
import { optionError } from "./errors.js";
import { serveFetch } from "./loader/fetch-port.js";
import { parseSource } from "./loader/source.js";
import { checkSignal, Model } from "./model.js";
import { describe, knownKeys } from "./plain.js";
import type { WireLoadOptions } from "./protocol.js";
import { countThreads } from "./threads.js";
import type { LoadOptions, Source } from "./types.js";

const ACTIVATIONS = ["q16_0", "q8_0", "f32"] as const;

const OPTIONS: readonly (keyof LoadOptions)[] = [
  "device",
  "contextLength",
  "kvCache",
  "quantize",
  "activations",
  "threads",
  "cache",
  "hub",
  "fetch",
  "signal",
  "onProgress",
  "worker",
];

const HUB = "https://huggingface.co";

/**
 * Loads a model.
 *
 * `source` is a GGUF file or a Hugging Face checkpoint (`config.json`, `tokenizer.json`, safetensors):
 *
 * - the URL of a `.gguf` file; of one that is split, any part (`-00001-of-00003.gguf`) stands for all;
 * - the URL of a checkpoint's folder, with a `/` at the end;
 * - a Hub id: `owner/repo` for the checkpoint of a repository, `owner/repo/file.gguf` for a file, either with
 *   `@revision` after the repository;
 * - a `File` or `Blob` of GGUF, or a list of the files of a checkpoint or of a split GGUF file.
 *
 * A relative URL begins with `/`, `./` or `../`, so that it cannot be taken for a Hub id.
 *
 * Rejects with a `DecantError` that names what is wrong, or with the signal's reason.
 */
export async function load(source: Source, options: LoadOptions = {}): Promise<Model> {
  knownKeys(options, OPTIONS, "load");
  const { signal, onProgress, fetch } = options;
  checkSignal(signal);
  checkFunction(onProgress, "onProgress");
  checkFunction(fetch, "fetch");
  const place = workerOf(options.worker);
  const wireOptions: WireLoadOptions = {
    device: choice(options.device, "device", ["auto", "webgpu", "cpu"], "auto"),
    contextLength: positive(options.contextLength, "contextLength"),
    kvCache: choice(options.kvCache, "kvCache", ["f16", "f32"], "f16"),
    quantize: choice(options.quantize, "quantize", ["q8_0", "q4_0"], null),
    activations: choice(options.activations, "activations", ACTIVATIONS, "q16_0"),
    cache: choice(options.cache, "cache", ["opfs", "none"], "opfs"),
    ...countThreads(options.threads),
  };
  if (wireOptions.device === "webgpu" && (options.activations ?? "f32") !== "f32") {
    const found = JSON.stringify(options.activations);
    throw optionError(
      "activations",
      `${found} is for the CPU; with device "webgpu" it can be "f32"`,
    );
  }
  if (wireOptions.device === "webgpu" && (options.threads ?? 1) > 1) {
    throw optionError(
      "threads",
      `${options.threads} threads are for the CPU; with device "webgpu" it can be 1`,
    );
  }
  const wireSource = parseSource(source, hubUrl(options.hub));
  signal?.throwIfAborted();

  const connection = await open(place);
  const fetchPort = fetch === undefined ? null : serveFetch(fetch);
  const loading = connection.load(wireSource, wireOptions, fetchPort, onProgress);
  try {
    return new Model(connection, await abortable(loading, signal));
  } catch (error) {
    void connection.close();
    throw error;
  }
}

/** A connection to an engine: in a worker of its own, on this thread, or beside a model. */
async function open(place: boolean | Model): Promise<Connection> {
  if (place instanceof Model) return Connection.beside(Model.connection(place));
  return place ? Connection.inWorker() : Connection.inPage();
}

/** `promise`, unless `signal` is aborted first. */
async function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener("abort", abort);
  if (signal.aborted) abort();
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

function choice<T, F>(value: unknown, name: string, allowed: readonly T[], fallback: F): T | F {
  if (value === undefined) return fallback;
  if (allowed.includes(value as T)) return value as T;
  const list = allowed.map((item) => JSON.stringify(item)).join(", ");
  throw optionError(name, `expected one of ${list}; found ${describe(value)}`);
}

function workerOf(value: unknown): boolean | Model {
  if (value === undefined) return true;
  if (typeof value === "boolean" || value instanceof Model) return value;
  throw optionError("worker", `expected true, false or a loaded model; found ${describe(value)}`);
}

function positive(value: unknown, name: string): number | null {
  if (value === undefined) return null;
  if (Number.isInteger(value) && (value as number) > 0 && (value as number) < 2 ** 32) {
    return value as number;
  }
  throw optionError(name, `expected a positive integer, found ${describe(value)}`);
}

function checkFunction(value: unknown, name: string): void {
  if (value !== undefined && typeof value !== "function") {
    throw optionError(name, `expected a function, found ${describe(value)}`);
  }
}

function hubUrl(value: unknown): URL {
  if (value === undefined) return new URL(HUB);
  if (typeof value === "string" || value instanceof URL) {
    try {
      return new URL(value, globalThis.location?.href);
    } catch {
      // Falls through to the error that names the option.
    }
  }
  throw optionError("hub", `expected the base URL of a Hub, found ${describe(value)}`);
}
