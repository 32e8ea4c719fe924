// The package as a stranger gets it: packed, unpacked, served over HTTP to a page with nothing else on it,
// in a real headless Chromium with its software WebGPU adapter.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { chromium } from "playwright-core";
import { chromium as findChromium, model as findModel, root } from "../../../xtask/machine.mjs";
import { serve } from "../../../xtask/serve.mjs";
import { tiny } from "./tiny.mjs";

const FLAGS = [
  "--enable-unsafe-webgpu",
  "--no-sandbox",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--no-first-run",
  "--enable-precise-memory-info",
];

/** Packs the package into a new folder; answers the folder that the page imports from, and the tarball. */
export function pack() {
  if (!existsSync(path.join(root, "www/dist/index.js"))) throw new Error("run npm run build first");
  const folder = mkdtempSync(path.join(tmpdir(), "decant-"));
  const printed = execFileSync(
    "npm",
    ["pack", "--json", "--ignore-scripts", "--pack-destination", folder],
    { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] },
  );
  const [{ filename, files }] = Object.values(JSON.parse(printed));
  execFileSync("tar", ["-xf", path.join(folder, filename), "-C", folder]);
  return {
    folder,
    dist: path.join(folder, "package/www/dist"),
    files: files.map((file) => file.path),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/**
 * A server with the package at /package/, the real model at /models/ and the tiny one at /tiny.gguf, and a
 * browser. `intercept` may answer requests first (see `serve`).
 */
export async function open({ intercept = () => false, mounts = {}, realModel = false } = {}) {
  const packed = pack();
  const tinyFile = tiny();
  const server = await serve(
    {
      "/package/": packed.dist,
      ...(realModel ? { "/models/": path.dirname(findModel()) } : {}),
      ...mounts,
    },
    {
      intercept: (request, response, url) => {
        if (intercept(request, response, url)) return true;
        if (url.pathname === "/") {
          response.writeHead(200, { "Content-Type": "text/html" });
          response.end("<!doctype html><meta charset=utf-8><title>test</title>");
          return true;
        }
        if (url.pathname !== "/tiny.gguf") return false;
        response.writeHead(200, { "Content-Length": tinyFile.length, ETag: '"tiny"' });
        response.end(request.method === "HEAD" ? undefined : tinyFile);
        return true;
      },
    },
  );
  const browser = await chromium.launch({ executablePath: findChromium(), args: FLAGS });
  return {
    packed,
    server,
    browser,
    /** A page of its own, with the package's exports as `decant`. Fails the test on stray errors. */
    async page({ before } = {}) {
      const context = await browser.newContext();
      const page = await context.newPage();
      const stray = [];
      page.on("pageerror", (error) => stray.push(error.message));
      if (before) await page.addInitScript(before);
      await page.goto(server.origin);
      await page.evaluate(async () => {
        globalThis.decant = await import("/package/index.js");
        globalThis.strayRejections = [];
        addEventListener("unhandledrejection", ({ reason }) => {
          strayRejections.push(String(reason));
        });
      });
      return {
        run: (work, argument) => page.evaluate(work, argument),
        page,
        stray: async () => [...stray, ...(await page.evaluate(() => strayRejections))],
        close: () => context.close(),
      };
    },
    async close() {
      await browser.close();
      await server.close();
      packed.remove();
    },
  };
}
