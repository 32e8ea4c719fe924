/**
 * The bytes of a model, piece after piece, from wherever they are.
 *
 * No piece is larger than {@link PIECE}, and a piece is only asked for when the one before has been used,
 * so a file of any size passes through a small window.
 */

import { DecantError } from "../errors.js";
import type { Place } from "../protocol.js";
import type { LoadStage } from "../types.js";
import { type Keeper, sameVersion, Store, type Version } from "./store.js";

/** The most bytes handed to the engine at once. */
export const PIECE = 1 << 20;

/** An opened file. */
export interface Bytes {
  stage: LoadStage;
  /** Bytes in all, or null while nobody has said. */
  total: number | null;
  pieces: Pieces;
  /** To be called once at the end: whether the bytes turned out to be a good model. */
  done(good: boolean): Promise<void>;
}

type Pieces = AsyncIterable<Uint8Array<ArrayBuffer>>;

/** How files are opened. */
export interface OpenOptions {
  fetch: typeof globalThis.fetch;
  cache: "opfs" | "none";
  signal: AbortSignal;
  /** Told about what did not go as asked but does not stop the load. */
  warn(message: string): void;
}

/**
 * Opens the file at `place`; `keep` says whether a download is kept for the next visit, as it must be read
 * to its end then, and `optional` makes a file that is not there nothing rather than an error.
 *
 * Fails with the code `"network"` when its bytes cannot be had.
 */
export async function open(
  place: Place,
  options: OpenOptions & { keep: boolean; optional: boolean },
): Promise<Bytes | undefined> {
  if ("blob" in place) return fromBlob(place.blob);
  const { url } = place;
  const store = options.cache === "opfs" ? await Store.open(options.warn) : undefined;
  const kept = await store?.find(url);
  if (kept !== undefined && (await isCurrent(url, kept.version, options)))
    return fromBlob(kept.file);

  const response = await request(url, "GET", options);
  if (!response.ok || response.body === null) {
    void response.body?.cancel();
    if (options.optional && response.status === 404) return undefined;
    throw new DecantError(
      "network",
      `${url} answered ${response.status} ${response.statusText}`.trim(),
    );
  }
  const version = versionOf(response);
  const keeper = options.keep ? await store?.begin(url, version) : undefined;
  const { body } = response;
  const pieces = split(named(url, body));
  return {
    stage: "download",
    total: version.size,
    pieces: complete(url, version.size, keeper === undefined ? pieces : written(keeper, pieces)),
    done: async (good) => {
      // Reading ends the download of what was begun; what nobody began to read is still on its way.
      if (!body.locked) void body.cancel().catch(() => {});
      await (good ? keeper?.commit() : keeper?.discard());
    },
  };
}

function fromBlob(blob: Blob): Bytes {
  const name = blob instanceof File ? blob.name : "the blob";
  return {
    stage: "read",
    total: blob.size,
    pieces: split(named(name, blob.stream())),
    done: async () => {},
  };
}

/** Whether the kept version is still the one that is offered; when nobody can say, it is. */
async function isCurrent(url: string, kept: Version, options: OpenOptions): Promise<boolean> {
  try {
    const response = await options.fetch(url, { method: "HEAD", signal: options.signal });
    return !response.ok || sameVersion(kept, versionOf(response));
  } catch {
    options.signal.throwIfAborted();
    return true;
  }
}

async function request(url: string, method: string, options: OpenOptions): Promise<Response> {
  try {
    return await options.fetch(url, { method, signal: options.signal });
  } catch (error) {
    throw networkError(url, error);
  }
}

function versionOf({ headers }: Response): Version {
  // The length of a compressed body says nothing about the length of what comes out of it.
  const length = headers.has("content-encoding") ? null : headers.get("content-length");
  return {
    size: length === null ? null : Number(length),
    etag: headers.get("etag"),
    modified: headers.get("last-modified"),
  };
}

function networkError(url: string, error: unknown): unknown {
  if (error instanceof DecantError || (error as Error)?.name === "AbortError") return error;
  return new DecantError("network", `${url}: ${(error as Error)?.message ?? error}`);
}

async function* named(url: string, stream: ReadableStream<Uint8Array<ArrayBuffer>>) {
  try {
    yield* iterate(stream);
  } catch (error) {
    throw networkError(url, error);
  }
}

/**
 * A stream's chunks, each to be used before the next: where the stream can fill memory that it is given, all are in
 * the same, as buffers by the hundred that wait to be collected take as much memory as a model. Not every browser
 * lets a stream be iterated.
 */
async function* iterate(stream: ReadableStream<Uint8Array<ArrayBuffer>>) {
  const reader = readerOf(stream);
  try {
    for (let buffer = new ArrayBuffer(PIECE); ;) {
      const { done, value } = await (reader instanceof ReadableStreamDefaultReader
        ? reader.read()
        : reader.read(new Uint8Array(buffer)));
      if (done) return;
      buffer = value.buffer;
      yield value;
    }
  } finally {
    // Ends the download when the consumer leaves early; after the end it does nothing.
    reader.cancel().catch(() => {});
  }
}

function readerOf(stream: ReadableStream<Uint8Array<ArrayBuffer>>) {
  try {
    return stream.getReader({ mode: "byob" });
  } catch {
    // Streams of a caller's own `fetch`, and some browsers' streams, bring their own memory.
    return stream.getReader();
  }
}

async function* split(chunks: Pieces) {
  for await (const chunk of chunks) {
    for (let begin = 0; begin < chunk.length; begin += PIECE) {
      yield chunk.subarray(begin, begin + PIECE);
    }
  }
}

async function* written(keeper: Keeper, pieces: Pieces) {
  for await (const piece of pieces) {
    await keeper.write(piece);
    yield piece;
  }
}

async function* complete(url: string, size: number | null, pieces: Pieces) {
  let loaded = 0;
  for await (const piece of pieces) {
    loaded += piece.length;
    yield piece;
  }
  if (size !== null && loaded < size) {
    throw new DecantError("network", `${url} ended after ${loaded} of ${size} bytes`);
  }
}
