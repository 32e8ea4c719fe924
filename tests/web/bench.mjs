// The page of `npm run bench`, with the tiny model: what it measures, shows and hands over.
import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { root } from "../../xtask/machine.mjs";
import { setup } from "../../xtask/peers.mjs";
import { open } from "./support/harness.mjs";

const nowhere = {
  modules: path.join(tmpdir(), "no-modules"),
  onnx: path.join(tmpdir(), "no-onnx"),
};
let site;
let browser;
before(async () => {
  site = await open({
    mounts: {
      "/bench/": path.join(root, "tests/web/bench"),
      "/shaders/": path.join(root, "shaders"),
    },
    intercept: (_request, response, url) => {
      if (url.pathname !== "/setup.json") return false;
      const known = { ...setup("/tiny.gguf", nowhere), ids: [5, 3, 8, 2, 9, 4, 7] };
      response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(known));
      return true;
    },
  });
  browser = await site.page();
  await browser.page.goto(`${site.server.origin}/bench/index.html`);
  await browser.page.waitForFunction(() => globalThis.ready !== undefined);
});
after(() => site.close());

test("what is not installed is named with the line that installs it, and cannot be chosen", async () => {
  const text = await browser.page.locator("#missing").innerText();
  assert.match(text, /^transformers\.js is not here: npm install .* && hf download /m);
  assert.match(text, /^wllama is not here: npm install --no-save /m);
  const boxes = await browser.run(() =>
    [...document.querySelectorAll("[name=runner]")].map(({ value, disabled }) => [value, disabled]),
  );
  const decant = boxes.filter(([name]) => name.startsWith("Decant"));
  assert.equal(decant.length, 5);
  for (const [name, disabled] of boxes)
    assert.equal(disabled, !name.startsWith("Decant"), `${name}: ${disabled}`);
});

test("measures ceilings and runtimes, shows them and hands them over", async () => {
  const names = ["Decant, WebGPU", "Decant, CPU, f32"];
  const chosen = { names, prefill: 6, decode: 3, runs: 1 };
  const report = await browser.run((chosen) => bench(chosen), chosen);
  const { adapter, ...ceilings } = report.ceilings;
  assert.ok(adapter.length > 0, JSON.stringify(report.ceilings));
  for (const name of ["read_bytes_per_second", "multiply_adds_per_second", "round_trip_seconds"])
    assert.ok(ceilings[name] > 0, name);
  assert.deepEqual(
    report.runtimes.map(({ name }) => name),
    names,
  );
  for (const { error, runs, kernels, info, ...found } of report.runtimes) {
    assert.equal(error, undefined);
    for (const name of ["prefill_tokens_per_second", "decode_tokens_per_second"])
      assert.ok(found[name] > 0, name);
    assert.equal(runs.length, 1);
    assert.equal(runs[0].timings.prefill_tokens, 6);
    assert.ok(runs[0].timings.forwards >= 4);
    assert.ok(Array.isArray(kernels) && kernels.length > 3, String(kernels));
    assert.ok(kernels.every(({ ms }) => ms >= 0));
    assert.ok(["webgpu", "cpu"].includes(info.device));
  }
  assert.equal(await browser.page.locator("#rows tr").count(), 2);
  const written = await browser.run(async () =>
    (await fetch(document.getElementById("download").href)).json(),
  );
  assert.deepEqual(written, report);
});

test("what fails is a line of the report, and the others still run", async () => {
  const report = await browser.run(async () => {
    const { fetch } = globalThis;
    globalThis.fetch = () => Promise.reject(new TypeError("offline"));
    try {
      return await bench({ names: ["Decant, WebGPU"], prefill: 2, decode: 1, runs: 1 });
    } finally {
      globalThis.fetch = fetch;
    }
  });
  assert.match(report.ceilings.error, /offline/);
  assert.deepEqual(
    report.runtimes.map(({ name, error }) => [name, error]),
    [["Decant, WebGPU", undefined]],
  );
});
