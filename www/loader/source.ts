/** What a caller may call a model, and where its bytes are. */

import { DecantError, optionError } from "../errors.js";
import { describe } from "../plain.js";
import type { WireSource } from "../protocol.js";

/** `owner/repo`, `@revision`, `/path`. */
const HUB_ID = /^([\w.-]+\/[\w.-]+)(?:@([^/@]+))?(?:\/(.+))?$/;
const SPLIT = /-\d{5}-of-\d{5}\.gguf$/i;
const OTHER = /\.(?:safetensors|json|bin|onnx|pt|pth|zip|html?)$/i;

/** The place that `source` names. Fails on what is malformed, and on what is not supported yet. */
export function parseSource(source: unknown, hub: URL): WireSource {
  if (source instanceof Blob) return { kind: "blob", blob: source };
  if (source instanceof URL) return { kind: "url", url: gguf(source).href };
  if (Array.isArray(source)) {
    throw unsupported("a list of files is not supported yet; give one .gguf file");
  }
  if (typeof source !== "string") {
    throw optionError(
      "source",
      `expected a URL, a Hub id, a File or a Blob; found ${describe(source)}`,
    );
  }
  return { kind: "url", url: gguf(address(source, hub)).href };
}

function address(source: string, hub: URL): URL {
  if (/^(?:[a-z][a-z0-9+.-]*:|\.{0,2}\/)/i.test(source)) {
    try {
      return new URL(source, globalThis.location?.href);
    } catch {
      throw optionError("source", `${describe(source)} is not a URL`);
    }
  }
  const match = HUB_ID.exec(source);
  if (match === null) {
    throw optionError(
      "source",
      `${describe(source)} is neither a URL nor a Hub id; write owner/repo/file.gguf, or begin a relative URL with "./"`,
    );
  }
  const [, repository, revision = "main", path] = match;
  if (path === undefined) {
    throw unsupported(
      `${describe(source)} names a whole repository, which is not supported yet; name its file, as in ${repository}/file.gguf (a relative URL begins with "./")`,
    );
  }
  const base = hub.href.endsWith("/") ? hub.href : `${hub.href}/`;
  const file = path.split("/").map(encodeURIComponent).join("/");
  return new URL(`${repository}/resolve/${encodeURIComponent(revision)}/${file}`, base);
}

/** Fails if `url` is recognisably something else than one GGUF file; the file's first bytes decide the rest. */
function gguf(url: URL): URL {
  const found = SPLIT.test(url.pathname)
    ? "a split GGUF file"
    : url.pathname.endsWith("/")
      ? "a directory"
      : OTHER.test(url.pathname)
        ? "not a GGUF file"
        : undefined;
  if (found === undefined) return url;
  throw unsupported(
    `${describe(url.href)} is ${found}, which is not supported yet; give a single .gguf file`,
  );
}

function unsupported(message: string): DecantError {
  return new DecantError("unsupported", `source: ${message}`, "source");
}
