/**
 * From a source to a model: the small files whole, the weights piece by piece.
 *
 * A model in one file is read once. Of several files the headers are read first, because nothing can be
 * placed before all tensors are known; each is begun again afterwards.
 */

import type { Engine as WasmModel, Loader } from "../bindings/decant.js";
import type { Engine } from "../engine.js";
import { DecantError } from "../errors.js";
import type { Place, WireLoadOptions, WireSource } from "../protocol.js";
import type { Threads } from "../threads.js";
import type { LoadStage } from "../types.js";
import { open, type Bytes, type OpenOptions } from "./bytes.js";

/** How a source is read. */
export interface FeedOptions extends OpenOptions {
  load: WireLoadOptions;
  /** The threads that the CPU is to use, if there are to be several. */
  threads: Threads | undefined;
  /** Told how many bytes of the weights have reached the engine, and of how many. */
  progress(stage: LoadStage, loaded: number, total: number | null): void;
}

/** The files of a checkpoint besides its weights, in the order in which the engine takes them. */
const SMALL = [
  "config.json",
  "tokenizer.json",
  "tokenizer_config.json",
  "chat_template.jinja",
  "generation_config.json",
  "model.safetensors.index.json",
] as const;
const REQUIRED: readonly string[] = ["config.json", "tokenizer.json"];

/** The most bytes of a small file. The largest vocabularies known take 35 MB. */
const LARGEST = 128 << 20;

/** Reads `source` into `engine`. */
export async function feed(
  engine: Engine,
  source: WireSource,
  options: FeedOptions,
): Promise<WasmModel> {
  const opened: Bytes[] = [];
  const openPlace = async (place: Place, keep: boolean, optional: boolean) => {
    options.signal.throwIfAborted();
    const bytes = await open(place, { ...options, keep, optional });
    if (bytes !== undefined) opened.push(bytes);
    return bytes;
  };
  let good = false;
  let loader: Loader | undefined;
  try {
    const wanted = JSON.stringify({
      ...options.load,
      name: source.kind === "checkpoint" ? source.name : "",
    });
    let files: Opener[];
    if (source.kind === "gguf") {
      const places = source.files;
      loader = await engine.wait((engine) =>
        engine.Loader.gguf(wanted, places.length, options.threads),
      );
      files = places.map((place) => async (keep) => (await openPlace(place, keep, false))!);
    } else {
      const folder = new Folder(source.folder, (place, keep) => openPlace(place, keep, true));
      const made = (loader = await checkpoint(engine, wanted, options.threads, folder));
      const names = JSON.parse(engine.run(() => made.files())) as string[];
      files = names.map((name) => (keep) => folder.required(name, keep));
    }
    const model = await weights(engine, loader, files, options);
    good = true;
    return model;
  } finally {
    free(engine, loader);
    for (const bytes of opened) await bytes.done(good);
  }
}

/** Opens a file of the weights; the argument says whether a download is kept. */
type Opener = (keep: boolean) => Promise<Bytes>;

/** Gives back what a load that failed holds on the device, now rather than when garbage is collected. */
function free(engine: Engine, loader: Loader | undefined): void {
  try {
    engine.run(() => loader?.free());
  } catch {
    // A dead engine holds nothing that it could give back.
  }
}

async function checkpoint(
  engine: Engine,
  wanted: string,
  threads: Threads | undefined,
  folder: Folder,
): Promise<Loader> {
  const read = async (name: string) => {
    const text = await folder.read(name);
    if (text === undefined && REQUIRED.includes(name)) throw folder.missing(name);
    return text;
  };
  const [first, ...others] = SMALL;
  const config = (await read(first))!;
  // What is not supported is refused before the vocabulary is fetched.
  engine.run(({ check_config }) => check_config(config));
  // All of them, also when one fails: what was opened must be let go of.
  const settled = await Promise.allSettled(others.map(read));
  const texts = settled.map((result) => {
    if (result.status === "rejected") throw result.reason;
    return result.value;
  });
  const [tokenizer, tokenizerConfig, template, generation, index] = texts;
  return engine.wait(({ Loader }) =>
    Loader.checkpoint(
      wanted,
      threads,
      config,
      tokenizer!,
      tokenizerConfig,
      template,
      generation,
      index,
    ),
  );
}

async function weights(
  engine: Engine,
  loader: Loader,
  files: Opener[],
  { signal, progress }: FeedOptions,
): Promise<WasmModel> {
  const sizes: (number | null)[] = [];
  const several = files.length > 1;
  if (several) {
    for (const [i, openFile] of files.entries()) {
      const { total, pieces } = await openFile(false);
      sizes.push(total);
      engine.run(() => loader.begin(i, total ?? undefined));
      for await (const piece of pieces) {
        signal.throwIfAborted();
        if (!(await engine.wait(() => loader.push(piece)))) break;
      }
    }
  }
  const known = sizes.reduce((sum: number | null, size) => add(sum, size), 0);
  let loaded = 0;
  for (const [i, openFile] of files.entries()) {
    const { stage, total, pieces } = await openFile(true);
    if (several && total !== sizes[i]) {
      throw new DecantError("network", "a file of the model changed while it was being loaded");
    }
    const whole = several ? known : total;
    // A total that turns out too small was none.
    const tell = () => progress(stage, loaded, whole !== null && loaded > whole ? null : whole);
    tell();
    engine.run(() => loader.begin(i, total ?? undefined));
    for await (const piece of pieces) {
      signal.throwIfAborted();
      await engine.wait(() => loader.push(piece));
      loaded += piece.length;
      tell();
    }
  }
  signal.throwIfAborted();
  progress("prepare", loaded, loaded);
  return engine.wait(() => loader.finish());
}

function add(sum: number | null, size: number | null): number | null {
  return sum === null || size === null ? null : sum + size;
}

/** The files of a checkpoint, by name. */
class Folder {
  readonly #folder: string | Record<string, Blob>;
  readonly #open: (place: Place, keep: boolean) => Promise<Bytes | undefined>;

  constructor(
    folder: string | Record<string, Blob>,
    open: (place: Place, keep: boolean) => Promise<Bytes | undefined>,
  ) {
    this.#folder = folder;
    this.#open = open;
  }

  /** Opens a file that must be there. */
  async required(name: string, keep: boolean): Promise<Bytes> {
    const bytes = await this.#find(name, keep);
    if (bytes === undefined) throw this.missing(name);
    return bytes;
  }

  /** A small file's bytes; nothing if there is no such file. */
  async read(name: string): Promise<Uint8Array | undefined> {
    const bytes = await this.#find(name, true);
    if (bytes === undefined) return undefined;
    const parts: Uint8Array<ArrayBuffer>[] = [];
    let length = 0;
    for await (const piece of bytes.pieces) {
      // The next piece may be in the same memory.
      parts.push(piece.slice());
      length += piece.length;
      if (length > LARGEST) {
        throw new DecantError("invalid_weights", `${name} has more than ${LARGEST} bytes`, name);
      }
    }
    return new Uint8Array(await new Blob(parts).arrayBuffer());
  }

  missing(name: string): DecantError {
    const where = typeof this.#folder === "string" ? this.#folder : "the list of files";
    return new DecantError(
      "unsupported",
      `source: ${where} has no ${name}; a checkpoint needs config.json, tokenizer.json and model.safetensors, or its index and parts (a GGUF file is named itself, as in owner/repo/file.gguf)`,
      "source",
    );
  }

  async #find(name: string, keep: boolean): Promise<Bytes | undefined> {
    const place = this.#place(name);
    return place && this.#open(place, keep);
  }

  #place(name: string): Place | undefined {
    if (typeof this.#folder === "string") {
      const base = new URL(this.#folder);
      const url = new URL(encodeURIComponent(name), base);
      url.search = base.search;
      return { url: url.href };
    }
    const blob = Object.hasOwn(this.#folder, name) ? this.#folder[name] : undefined;
    return blob && { blob };
  }
}
