// The real model on the CPU, through the package's public face: numbers and activations of 16 bits give the ids of
// transformers, those of 8 bits nearly so, and both WebAssembly modules agree.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { open } from "./support/harness.mjs";

const { cases } = JSON.parse(
  readFileSync(new URL("../fixtures/smollm2.json", import.meta.url), "utf8"),
);

/**
 * What 8-bit activations may do to the logits of this model, whose logits go from about −10 to 25: the root of the
 * mean square over the vocabulary. Each of about 200 products in a row is off by half a percent, at random; the
 * furthest of 49,152 logits is some five times further off and says little. The test prints what it measures.
 */
const Q8_LOGITS = 1;

let site;
before(async () => {
  site = await open({ realModel: true });
});
after(() => site.close());

/** A page with `loadModel`, and the names of the WebAssembly files that it asked for. */
async function visit({ relaxed = true } = {}) {
  const browser = await site.page({
    before: relaxed ? undefined : () => void (WebAssembly.validate = () => false),
  });
  const modules = [];
  browser.page.on("request", (request) => {
    const [, name] = /\/([^/]+\.wasm)$/.exec(request.url()) ?? [];
    if (name) modules.push(name);
  });
  await browser.run(() => {
    globalThis.loadModel = (options) =>
      decant.load("/models/SmolLM2-135M-Instruct.Q4_1.gguf", {
        cache: "none",
        contextLength: 256,
        // On the page's thread, which the test can prepare.
        worker: false,
        ...options,
      });
    globalThis.lastLogits = async (model, ids) => {
      const { data, shape } = await model.forward(ids);
      return data.slice((shape[0] - 1) * shape[1]);
    };
    globalThis.distance = (a, b) =>
      Math.sqrt(a.reduce((sum, v, i) => sum + (v - b[i]) ** 2, 0) / a.length);
  });
  return { ...browser, modules };
}

test("auto takes the CPU where the adapter is a program on it, and says why", async () => {
  const browser = await visit();
  const info = await browser.run(async () => {
    const model = await loadModel({ worker: true });
    await model.unload();
    return model.info;
  });
  assert.equal(info.device, "cpu");
  assert.match(info.adapter, /WebAssembly, relaxed SIMD/);
  assert.match(info.reason, /WebGPU adapter .*is a program on the CPU/);
  assert.deepEqual(await browser.stray(), []);
  await browser.close();
});

/** How far the first scores may be from those of transformers. Both are within rounding of f32. */
const FIRST_SCORES = 2e-3;
for (const [activations, relaxed] of [
  ["f32", true],
  ["q16_0", true],
  ["q16_0", false],
]) {
  const module = relaxed ? "relaxed SIMD" : "plain SIMD";
  test(`activations ${activations} with ${module} give the ids of transformers in f32`, async (t) => {
    const browser = await visit({ relaxed });
    await browser.run(async (activations) => {
      globalThis.model = await loadModel({ device: "cpu", activations, kvCache: "f32" });
    }, activations);
    for (const { name, prompt_ids, ids, top5_first_step } of cases) {
      await t.test(name, async () => {
        const { sequence, top } = await browser.run(
          async ([input, max_new_tokens, top]) => {
            const { sequences } = await model.generate(input, { max_new_tokens }).result;
            const logits = await lastLogits(model, input);
            return { sequence: sequences[0], top: top.map(([id]) => logits[id]) };
          },
          [prompt_ids, ids.length, top5_first_step],
        );
        assert.deepEqual(sequence, ids);
        const off = top.map((logit, i) => Math.abs(logit - top5_first_step[i][1]));
        assert.ok(Math.max(...off) < FIRST_SCORES, `${off}`);
      });
    }
    await browser.close();
  });
}

test("activations of 8 bits move logits by little, and ids only where two were near", async () => {
  const browser = await visit();
  await browser.run(async () => {
    globalThis.exact = await loadModel({ device: "cpu", activations: "f32" });
    globalThis.rounded = await loadModel({ device: "cpu", activations: "q8_0" });
  });
  for (const { name, prompt_ids, ids, gaps } of cases) {
    const { off, found } = await browser.run(
      async ([input, max_new_tokens]) => {
        const logits = await Promise.all([exact, rounded].map((model) => lastLogits(model, input)));
        const { sequences } = await rounded.generate(input, { max_new_tokens }).result;
        return { off: distance(...logits), found: sequences[0] };
      },
      [prompt_ids, ids.length],
    );
    assert.equal(gaps.length, ids.length);
    assert.ok(found.length > 0 && found.length <= ids.length, `${found.length} ids`);
    // An answer that ends before the other parts from it where it ends.
    const parted = ids.findIndex((id, i) => id !== found[i]);
    const agreeing = parted < 0 ? ids.length : parted;
    const gap = parted < 0 ? 0 : gaps[parted];
    console.log(
      `${name}: logits differ by ${off.toFixed(3)} in the mean square, ${agreeing} of ${ids.length} ids agree, the gap there is ${gap}`,
    );
    assert.ok(off > 0 && off < Q8_LOGITS, `${off}`);
    assert.ok(gap < 3 * Q8_LOGITS, `${gap}`);
  }
  await browser.close();
});

test("a browser without relaxed SIMD takes the other module, with the same answers", async () => {
  const visits = [await visit(), await visit({ relaxed: false })];
  const [a, b] = await Promise.all(
    visits.map((browser) =>
      browser.run(async () => {
        const ids = Array.from({ length: 40 }, (_, i) => (i * 37) % 256);
        const logits = {};
        for (const quantize of [undefined, "q8_0", "q4_0"]) {
          const options = {
            device: "cpu",
            activations: "q8_0",
            worker: false,
            cache: "none",
            quantize,
          };
          const model = await decant.load("./tiny.gguf", options);
          logits[quantize] = Array.from((await model.forward(ids)).data);
          await model.unload();
          globalThis.adapter = model.info.adapter;
        }
        return { logits, adapter };
      }),
    ),
  );
  assert.deepEqual(visits[0].modules, ["decant-relaxed.wasm"]);
  assert.deepEqual(visits[1].modules, ["decant.wasm"]);
  assert.match(a.adapter, /relaxed/);
  assert.doesNotMatch(b.adapter, /relaxed/);
  const furthest = (a, b) => a.reduce((most, v, i) => Math.max(most, Math.abs(v - b[i])), 0);
  for (const format of ["undefined", "q8_0", "q4_0"]) {
    const off = furthest(a.logits[format], b.logits[format]);
    console.log(`${format}: the modules' logits differ by ${off} at most`);
    // Fused products round once. In a model of one layer that turns hardly a quant into its neighbour; in thirty
    // layers it turns so many that the two modules differ as much as either does from exact activations.
    assert.ok(off < 0.02, format);
  }
  assert.ok(furthest(a.logits.q8_0, a.logits.q4_0) > 0.02, "formats differ by more");
  for (const browser of visits) await browser.close();
});

test("activations that WebGPU does not have are refused with it", async () => {
  const browser = await visit();
  const error = await browser.run(() =>
    loadModel({ device: "webgpu", activations: "q8_0" }).catch(({ code, field }) => ({
      code,
      field,
    })),
  );
  assert.deepEqual(error, { code: "invalid_option", field: "activations" });
  assert.deepEqual(await browser.stray(), []);
  await browser.close();
});
