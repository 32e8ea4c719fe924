// The tarball: what is in it, and that it works with nothing beside it, as it is and through a bundler.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { build } from "esbuild";
import { serve } from "../../xtask/serve.mjs";
import { open } from "./support/harness.mjs";

let site;
before(async () => {
  site = await open();
});
after(() => site.close());

test("holds the package and nothing else", () => {
  const { files } = site.packed;
  const allowed =
    /^(package\.json|README\.md|LICENSE.*|www\/dist\/[\w.-]+\.(js|d\.ts|wasm)|www\/dist\/loader\/[\w.-]+\.d\.ts)$/;
  assert.deepEqual(
    files.filter((name) => !allowed.test(name)),
    [],
  );
  for (const name of [
    "index.js",
    "index.d.ts",
    "thread.js",
    "worker.js",
    "decant.wasm",
    "decant-relaxed.wasm",
  ]) {
    assert.ok(files.includes(`www/dist/${name}`), name);
  }
});

test("names its files in the form that bundlers understand", () => {
  const { dist } = site.packed;
  const texts = readdirSync(dist)
    .filter((name) => name.endsWith(".js"))
    .map((name) => readFileSync(path.join(dist, name), "utf8"))
    .join("\n");
  for (const name of ["worker", "thread"]) {
    const worker = new RegExp(
      `new Worker\\(\\s*new URL\\("\\./${name}\\.js",\\s*import\\.meta\\.url\\),\\s*\\{\\s*type:\\s*"module"\\s*\\}\\s*\\)`,
    );
    assert.match(texts, worker);
  }
  assert.match(texts, /new URL\("\.\/decant\.wasm",\s*import\.meta\.url\)/);
  assert.match(texts, /new URL\("\.\/decant-relaxed\.wasm",\s*import\.meta\.url\)/);
});

test("declares types that stand alone", async () => {
  const { dist } = site.packed;
  for (const name of readdirSync(dist).filter((name) => name.endsWith(".d.ts"))) {
    const text = readFileSync(path.join(dist, name), "utf8");
    for (const [, target] of text.matchAll(/^(?:import|export)\b.*from "(.+?)"/gm)) {
      const file = target.replace(/\.js$/, ".d.ts");
      assert.ok(readdirSync(dist).includes(path.basename(file)), `${name} names ${target}`);
    }
  }
});

test("is tree-shaken and bundled by its name", async () => {
  const { folder } = site.packed;
  const { outputFiles } = await build({
    stdin: {
      contents: 'import { DecantError } from "decant"; console.log(DecantError);',
      resolveDir: folder,
    },
    alias: { decant: path.join(site.packed.dist, "index.js") },
    bundle: true,
    format: "esm",
    splitting: true,
    outdir: path.join(folder, "out"),
    write: false,
  });
  assert.ok(outputFiles.length > 0);
});

test("has no host name of a registry in its lock file", () => {
  const lock = readFileSync(new URL("../../package-lock.json", import.meta.url), "utf8");
  assert.doesNotMatch(
    lock,
    /"resolved"|https?:\/\/(?!opencollective|github|www\.patreon|paulmillr|tidelift|feross)/,
  );
});

test("gives a page its exports and an error class of its own", async () => {
  const browser = await site.page();
  const answer = await browser.run(async () => {
    const error = await decant.load("model").catch((error) => error);
    return {
      exports: Object.keys(decant).sort(),
      error: error instanceof decant.DecantError && error instanceof Error,
      name: error.name,
      code: error.code,
    };
  });
  assert.deepEqual(answer, {
    exports: ["DecantError", "applyProcessors", "load"],
    error: true,
    name: "DecantError",
    code: "invalid_option",
  });
  await browser.close();
});

test("works when it is served from another origin", async () => {
  const elsewhere = await serve(
    { "/package/": site.packed.dist },
    {
      intercept: (_request, response) => {
        response.setHeader("Access-Control-Allow-Origin", "*");
        return false;
      },
    },
  );
  const browser = await site.page();
  const tokens = await browser.run(async (origin) => {
    const { load } = await import(`${origin}/package/index.js`);
    const model = await load("/tiny.gguf", { cache: "none" });
    const { usage } = await model.generate("abc", { max_new_tokens: 2 }).result;
    await model.unload();
    return usage.completion_tokens;
  }, elsewhere.origin);
  assert.equal(tokens, 2);
  assert.deepEqual(await browser.stray(), []);
  await browser.close();
  await elsewhere.close();
});
