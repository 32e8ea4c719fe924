// A small static server for the demo and the tests: right types, byte ranges, validators, nothing cached by force.
import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import path from "node:path";

const TYPES = {
  ".css": "text/css; charset=utf-8",
  ".gguf": "application/octet-stream",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".mjs": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
  ".wasm": "application/wasm",
};

/**
 * Serves `mounts`, an object from URL prefixes that end in "/" to folders or files.
 *
 * `intercept(request, response, url)` may answer first by returning true. `seen` counts the requests of
 * each method and path.
 */
export async function serve(
  mounts,
  { port = 0, host = "127.0.0.1", intercept = () => false } = {},
) {
  const seen = new Map();
  const server = createServer((request, response) => {
    const url = new URL(request.url, "http://server");
    const key = `${request.method} ${url.pathname}`;
    seen.set(key, (seen.get(key) ?? 0) + 1);
    if (intercept(request, response, url)) return;
    const file = find(mounts, decodeURIComponent(url.pathname));
    if (file === undefined) return end(response, 404, "not found");
    if (request.method !== "GET" && request.method !== "HEAD")
      return end(response, 405, "not allowed");
    send(request, response, file);
  });
  await new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  const address = server.address();
  return {
    origin: `http://localhost:${address.port}`,
    seen,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

/**
 * Lets the page be cross-origin isolated, so that the engine may use threads and clocks are finer. With
 * `credentialless` what the page takes from other origins needs no headers of its own for it, but Safari knows only
 * `require-corp`.
 */
export function isolate(response, embedder = "credentialless") {
  response.setHeader("Cross-Origin-Opener-Policy", "same-origin");
  response.setHeader("Cross-Origin-Embedder-Policy", embedder);
}

function find(mounts, pathname) {
  for (const [prefix, target] of Object.entries(mounts)) {
    if (!pathname.startsWith(prefix)) continue;
    let file = path.resolve(target, pathname.slice(prefix.length));
    // A path may not climb out of its mount.
    const inside = path.relative(target, file);
    if (inside.startsWith("..") || path.isAbsolute(inside)) continue;
    if (existsSync(file) && statSync(file).isDirectory()) file = path.join(file, "index.html");
    if (existsSync(file)) return file;
  }
  return undefined;
}

function send(request, response, file) {
  const { size, mtime } = statSync(file);
  const headers = {
    "Content-Type": TYPES[path.extname(file)] ?? "application/octet-stream",
    "Accept-Ranges": "bytes",
    "Cache-Control": "no-cache",
    ETag: `"${size.toString(16)}-${mtime.getTime().toString(16)}"`,
    "Last-Modified": mtime.toUTCString(),
  };
  if (request.headers["if-none-match"] === headers.ETag)
    return response.writeHead(304, headers).end();
  const range = /^bytes=(\d*)-(\d*)$/.exec(request.headers.range ?? "");
  let [start, last, status] = [0, size - 1, 200];
  if (range !== null && range[0] !== "bytes=-") {
    const [, from, to] = range;
    start = from === "" ? Math.max(0, size - Number(to)) : Number(from);
    if (from !== "" && to !== "") last = Math.min(Number(to), size - 1);
    if (start > last) {
      return response.writeHead(416, { ...headers, "Content-Range": `bytes */${size}` }).end();
    }
    status = 206;
    headers["Content-Range"] = `bytes ${start}-${last}/${size}`;
  }
  response.writeHead(status, { ...headers, "Content-Length": last - start + 1 });
  if (request.method === "HEAD" || size === 0) return response.end();
  createReadStream(file, { start, end: last }).pipe(response);
}

function end(response, status, text) {
  response.writeHead(status, { "Content-Type": "text/plain" }).end(text);
}
