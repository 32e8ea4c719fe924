// The real model through the package's public face: SmolLM2-135M-Instruct from its GGUF file over HTTP.
//
// A software adapter is slow, so the answers are compared for a short part; DECANT_FULL=1 compares all of
// them (`npm run test:web:full`). `npm test` compares all of them natively.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { open } from "./support/harness.mjs";

const { cases } = JSON.parse(
  readFileSync(new URL("../fixtures/smollm2.json", import.meta.url), "utf8"),
);
const TOKENS = process.env.DECANT_FULL ? Infinity : 6;
const MEMORY = 200e6;

let site;
let browser;

before(async () => {
  site = await open({ realModel: true });
  browser = await visit();
});
after(() => site.close());

/** A page with `loadModel`, and `memory`, the engine's own where it runs on the page's thread. */
async function visit() {
  const browser = await site.page({
    before: () => {
      const original = WebAssembly.instantiateStreaming;
      WebAssembly.instantiateStreaming = async (...args) => {
        const result = await original.apply(WebAssembly, args);
        globalThis.memory = result.instance.exports.memory;
        return result;
      };
    },
  });
  await browser.run(() => {
    globalThis.loadModel = (options) =>
      decant.load("/models/SmolLM2-135M-Instruct.Q4_1.gguf", {
        device: "webgpu",
        cache: "none",
        ...options,
      });
  });
  return browser;
}

test("loads in pieces: WebAssembly memory stays small, progress is honest", async () => {
  const page = await visit();
  const answer = await page.run(async () => {
    const steps = [];
    let most = 0;
    const onProgress = (progress) => {
      steps.push(progress);
      if (globalThis.memory) most = Math.max(most, memory.buffer.byteLength);
    };
    globalThis.model = await loadModel({ worker: false, onProgress });
    most = Math.max(most, memory.buffer.byteLength);
    return { steps, most, info: model.info };
  });
  console.log(`WebAssembly memory while loading: ${(answer.most / 1e6).toFixed(1)} MB at most`);
  assert.ok(answer.most > 1e6 && answer.most < MEMORY, `${answer.most} bytes`);
  const bytes = answer.steps
    .filter(({ stage }) => stage === "download")
    .map(({ loaded }) => loaded);
  const { total } = answer.steps[0];
  assert.equal(total, 98_362_432);
  assert.equal(bytes[0], 0);
  assert.equal(bytes.at(-1), total);
  for (let i = 1; i < bytes.length; i += 1) {
    const piece = bytes[i] - bytes[i - 1];
    assert.ok(piece > 0 && piece <= 1 << 20, `a piece of ${piece} bytes`);
  }
  assert.equal(answer.steps.at(-1).stage, "prepare");
  assert.equal(answer.info.device, "webgpu");

  // The page's thread is where this test can see what the device has finished.
  const { atFirstEvent, completed } = await page.run(async (ids) => {
    let read = 0;
    const original = GPUBuffer.prototype.mapAsync;
    GPUBuffer.prototype.mapAsync = async function (...args) {
      await original.apply(this, args);
      read += 1;
    };
    const generation = model.generate(ids, { max_new_tokens: 8 });
    let atFirstEvent;
    for await (const _ of generation) {
      atFirstEvent = read;
      break;
    }
    const { usage } = await generation.result;
    await model.unload();
    return { atFirstEvent, completed: usage.completion_tokens };
  }, cases[0].prompt_ids);
  assert.equal(atFirstEvent, 1, "the first token arrives before the second has been computed");
  assert.ok(completed <= 2, "after break at most one token more is computed");
  assert.deepEqual(await page.stray(), []);
  await page.close();
});

test("greedy ids equal those of transformers in f32", async (t) => {
  await browser.run(async () => {
    globalThis.model = await loadModel({ kvCache: "f32" });
  });
  for (const { name, prompt_ids, ids } of cases) {
    await t.test(name, async () => {
      const wanted = ids.slice(0, TOKENS);
      const result = await browser.run(
        ([input, max_new_tokens]) => model.generate(input, { max_new_tokens }).result,
        [prompt_ids, wanted.length],
      );
      assert.deepEqual(result.sequences[0], wanted);
    });
  }
});

test("a prompt of text is the prompt of its ids", async () => {
  for (const { text, prompt_ids } of cases.filter(({ text }) => text)) {
    assert.deepEqual(await browser.run((text) => model.tokenizer.encode(text), text), prompt_ids);
  }
});

test("the page's thread has no long task while text is generated", async () => {
  // A thread that waits for a processor looks like a busy one; a task of the package's would show each time.
  let tasks;
  for (let attempt = 0; attempt < 3; attempt += 1) {
    tasks = await browser.run(async (input) => {
      const tasks = [];
      const observer = new PerformanceObserver((list) => {
        tasks.push(...list.getEntries().map(({ duration }) => duration));
      });
      observer.observe({ type: "longtask" });
      for await (const { text } of model.generate(input, { max_new_tokens: 6 })) {
        document.body.append(text);
      }
      // The observer hears of a task when the next one begins.
      await new Promise((resolve) => setTimeout(resolve, 200));
      tasks.push(...observer.takeRecords().map(({ duration }) => duration));
      observer.disconnect();
      return tasks;
    }, cases[1].prompt_ids);
    if (tasks.length === 0) break;
  }
  assert.deepEqual(tasks, []);
});

test("a long task would be seen", async () => {
  const seen = await browser.run(async () => {
    const seen = new Promise((resolve) => {
      new PerformanceObserver((list) => resolve(list.getEntries().length)).observe({
        type: "longtask",
      });
    });
    setTimeout(() => {
      const end = performance.now() + 120;
      while (performance.now() < end);
    });
    return seen;
  });
  assert.ok(seen > 0);
});

test("the same seed draws the same tokens", async () => {
  const [a, b] = await browser.run(async (input) => {
    const config = { do_sample: true, temperature: 1.5, seed: 11, max_new_tokens: 5 };
    const run = async () => (await model.generate(input, config).result).sequences[0];
    return [await run(), await run()];
  }, cases[0].prompt_ids);
  assert.deepEqual(a, b);
});

test("an f16 cache moves the first step's logits by less than 0.05", async () => {
  const { furthest, worst } = await browser.run(async (ids) => {
    const last = async (model) => {
      const { data, shape } = await model.forward(ids);
      return data.slice((shape[0] - 1) * shape[1]);
    };
    const exact = await last(model);
    await model.unload();
    const half = await loadModel({ kvCache: "f16" });
    const rounded = await last(half);
    await half.unload();
    let [furthest, worst] = [0, 0];
    exact.forEach((value, id) => {
      const distance = Math.abs(value - rounded[id]);
      if (!(distance <= furthest)) [furthest, worst] = [distance, id];
    });
    return { furthest, worst };
  }, cases[0].prompt_ids);
  console.log(`f16 and f32 cache differ by ${furthest.toFixed(4)} at most (token ${worst})`);
  assert.ok(furthest > 0, "they do differ");
  assert.ok(furthest < 0.05);
  assert.deepEqual(await browser.stray(), []);
});
