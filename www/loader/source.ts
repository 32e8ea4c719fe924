/** What a caller may call a model, and where its files are. */

import { optionError } from "../errors.js";
import { describe } from "../plain.js";
import type { Place, WireSource } from "../protocol.js";

/** `owner/repo`, `@revision`, `/path`. */
const HUB_ID = /^([\w.-]+\/[\w.-]+)(?:@([^/@]+))?(?:\/(.+))?$/;
const GGUF = /\.gguf$/i;
/** The end of the name of a part of a split GGUF file. */
const SPLIT = /-(\d{5})-of-(\d{5})\.gguf$/i;
const CHECKPOINT = /\.(?:safetensors|json)$/i;
const OTHER = /\.(?:bin|onnx|pt|pth|zip|html?)$/i;

/** The place that `source` names. Fails on what is malformed or cannot be a model. */
export function parseSource(source: unknown, hub: URL): WireSource {
  if (source instanceof Blob) return fromFiles([source]);
  if (source instanceof URL) return fromUrl(source);
  if (Array.isArray(source) || source instanceof FileList) return fromFiles([...source]);
  if (typeof source !== "string") {
    throw sourceError(
      `expected a URL, a Hub id, a File, a Blob or a list of files; found ${describe(source)}`,
    );
  }
  if (/^(?:[a-z][a-z0-9+.-]*:|\.{0,2}\/)/i.test(source)) {
    try {
      return fromUrl(new URL(source, globalThis.location?.href));
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      throw sourceError(`${describe(source)} is not a URL`);
    }
  }
  const match = HUB_ID.exec(source);
  if (match === null) {
    throw sourceError(
      `${describe(source)} is neither a URL nor a Hub id; write owner/repo or owner/repo/file.gguf, or begin a relative URL with "./"`,
    );
  }
  const [, repository, revision = "main", path = ""] = match;
  if (path === "" && GGUF.test(repository!)) {
    throw sourceError(
      `${describe(source)} names a file but no repository; write owner/repo/file.gguf, or begin a relative URL with "./"`,
    );
  }
  const base = hub.href.endsWith("/") ? hub.href : `${hub.href}/`;
  const file = path.split("/").map(encodeURIComponent).join("/");
  const url = new URL(`${repository}/resolve/${encodeURIComponent(revision)}/${file}`, base);
  const named = fromUrl(url);
  return named.kind === "checkpoint" ? { ...named, name: repository! } : named;
}

/** A URL that ends in `/` is the folder of a checkpoint; any other is a GGUF file, whose first bytes decide. */
function fromUrl(url: URL): WireSource {
  const { pathname } = url;
  if (pathname.endsWith("/")) {
    return {
      kind: "checkpoint",
      folder: url.href,
      name: decoded(pathname.split("/").at(-2) ?? ""),
    };
  }
  if (CHECKPOINT.test(pathname)) {
    throw sourceError(
      `${describe(url.href)} is one file of a checkpoint; give its folder, with a "/" at the end, or the Hub id without a file`,
    );
  }
  if (OTHER.test(pathname)) {
    throw sourceError(
      `${describe(url.href)} is no model that can be loaded; supported are .gguf files and folders with config.json, tokenizer.json and .safetensors files`,
    );
  }
  const split = SPLIT.exec(pathname);
  if (split === null) return { kind: "gguf", files: [{ url: url.href }] };
  const files = Array.from({ length: parts(split) }, (_, i): Place => {
    const part = new URL(url);
    const number = String(i + 1).padStart(5, "0");
    part.pathname = pathname.replace(SPLIT, `-${number}-of-${split[2]}.gguf`);
    return { url: part.href };
  });
  return { kind: "gguf", files };
}

/** A segment of a path as people read it; as it is where its percent signs mean nothing. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** Blobs: one or the parts of a GGUF file, or the files of a checkpoint. */
function fromFiles(list: readonly unknown[]): WireSource {
  const names = new Map<string, Blob>();
  const blobs = list.map((item) => {
    if (!(item instanceof Blob)) throw sourceError(`expected files, found ${describe(item)}`);
    const name = nameOf(item);
    if (names.has(name) && name !== "") throw sourceError(`two files are called ${name}`);
    names.set(name, item);
    return item;
  });
  if (blobs.length === 0) throw sourceError("the list of files is empty");
  const gguf = blobs.filter((blob) => GGUF.test(nameOf(blob)));
  if (gguf.length === 0 && names.has("config.json")) {
    return { kind: "checkpoint", folder: Object.fromEntries(names), name: "" };
  }
  if (blobs.length === 1) return { kind: "gguf", files: [{ blob: blobs[0]! }] };
  if (gguf.length !== blobs.length) {
    throw sourceError(
      "expected the files of one checkpoint, config.json among them, or the parts of one GGUF file; " +
        `found ${[...names.keys()].map((name) => name || "a blob without a name").join(", ")}`,
    );
  }
  const number = (blob: Blob) => {
    const split = SPLIT.exec(nameOf(blob));
    if (split === null || parts(split) !== blobs.length) {
      throw sourceError(
        `${nameOf(blob)} is not one of ${blobs.length} parts of one GGUF file; give one model`,
      );
    }
    return Number(split[1]);
  };
  const files = gguf.sort((a, b) => number(a) - number(b)).map((blob) => ({ blob }));
  return { kind: "gguf", files };
}

function parts(split: RegExpExecArray): number {
  const count = Number(split[2]);
  const number = Number(split[1]);
  if (count >= 1 && count <= 1000 && number >= 1 && number <= count) return count;
  throw sourceError(`${describe(split[0])} is no part of a split file; parts count from 1`);
}

function nameOf(blob: Blob): string {
  return blob instanceof File ? blob.name : "";
}

function sourceError(message: string): Error {
  return optionError("source", message);
}
