// Threads of the CPU executor: the same answers as one gives, who may have them, and how they end.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { isolate, serve } from "../../xtask/serve.mjs";
import { open } from "./support/harness.mjs";

let site;
let missing = false;
let stalled = false;
let held;
before(async () => {
  site = await open({
    intercept: (_request, response, url) => {
      if (!url.searchParams.has("alone")) isolate(response);
      if (url.pathname !== "/package/thread.js" || !(missing || stalled)) return false;
      if (missing) response.writeHead(404).end();
      else held = response;
      return true;
    },
  });
});
after(() => site.close());

/** In the page: keeps the workers that it starts, and what ends them. */
function reachWorkers() {
  const Real = Worker;
  globalThis.workers = [];
  globalThis.ended = 0;
  globalThis.Worker = class extends Real {
    constructor(...args) {
      super(...args);
      workers.push(this);
    }
    terminate() {
      ended += 1;
      super.terminate();
    }
  };
}

/** The same one level down: the engine's worker ends a worker of its own when it is told to. */
function reachThreads() {
  const Real = Worker;
  const link = (script) => URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const inside = link(`
    const Real = Worker;
    globalThis.Worker = class extends Real {
      constructor(...args) {
        super(...args);
        new BroadcastChannel("kill").onmessage = () => this.terminate();
      }
    };`);
  globalThis.Worker = class extends Real {
    constructor(url, options) {
      // In this order, and before the first message.
      super(link(`import "${inside}"; import "${url}";`), options);
    }
  };
}

/** In the page: a model, and the error of what fails. */
function helpers() {
  globalThis.load = (options) =>
    decant.load("/tiny.gguf", { device: "cpu", cache: "none", ...options });
  globalThis.refusal = (promise) =>
    promise.then(
      () => "an answer",
      ({ name, code, field, message }) => ({ name, code, field, message }),
    );
}

async function visit(before) {
  const browser = await site.page({ before });
  await browser.run(helpers);
  return browser;
}

test("any number of threads gives the answers of one, to the bit", async () => {
  const browser = await visit();
  const answers = await browser.run(async () => {
    const answers = [];
    for (const options of [
      { threads: 1 },
      { threads: 2 },
      { threads: 3 },
      { threads: 2, worker: false },
      { threads: 2, quantize: "q8_0" },
      { threads: 1, quantize: "q8_0" },
    ]) {
      const model = await load(options);
      const ids = Array.from({ length: 60 }, (_, i) => (i * 37) % 256);
      const { data } = await model.forward(ids);
      const texts = [];
      for (const config of [
        { max_new_tokens: 20 },
        { max_new_tokens: 12, do_sample: true, seed: 5, num_return_sequences: 2 },
        { max_new_tokens: 8, num_beams: 3, num_return_sequences: 2 },
      ]) {
        const result = await model.generate(["abc"], config).result;
        texts.push(result.sequences);
      }
      const { threads, adapter } = model.info;
      await model.unload();
      answers.push({ threads, adapter, logits: Array.from(data), texts });
    }
    return answers;
  });
  assert.deepEqual(
    answers.map(({ threads }) => threads),
    [1, 2, 3, 2, 2, 1],
  );
  assert.match(answers[0].adapter, /^CPU, one thread, /);
  assert.match(answers[1].adapter, /^CPU, 2 threads, /);
  const [one, two, three, page, quantised, quantisedOne] = answers.map(({ logits, texts }) => ({
    logits,
    texts,
  }));
  assert.deepEqual(two, one);
  assert.deepEqual(three, one);
  assert.deepEqual(page, one);
  assert.deepEqual(quantised, quantisedOne);
  assert.notDeepEqual(quantised, one);
  assert.deepEqual(await browser.stray(), []);
  await browser.close();
});

test("unasked, half of the processors are used, but two of two and at most eight", async () => {
  for (const [processors, threads] of [
    [1, 1],
    [2, 2],
    [3, 2],
    [6, 3],
    [64, 8],
  ]) {
    const browser = await visit();
    const info = await browser.run(async (processors) => {
      const hardwareConcurrency = { get: () => processors };
      Object.defineProperty(Navigator.prototype, "hardwareConcurrency", hardwareConcurrency);
      const model = await load();
      await model.unload();
      return model.info;
    }, processors);
    assert.equal(info.threads, threads, `${processors} processors`);
    const said = info.notes.some((note) => /one thread: there is one processor/.test(note));
    assert.equal(said, processors === 1);
    await browser.close();
  }
});

test("a page that is not isolated has one thread and is told why; more are refused", async () => {
  const browser = await visit();
  await browser.page.goto(`${site.server.origin}/?alone`);
  await browser.run(async () => {
    globalThis.decant = await import("/package/index.js?alone");
  });
  await browser.run(helpers);
  const [isolated, info, error] = await browser.run(async () => {
    const model = await load();
    await model.unload();
    return [crossOriginIsolated, model.info, await refusal(load({ threads: 2 }))];
  });
  assert.equal(isolated, false);
  assert.equal(info.threads, 1);
  const headers =
    /Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp/;
  assert.match(info.notes.at(-1), headers);
  assert.deepEqual([error.code, error.field], ["invalid_option", "threads"]);
  assert.match(error.message, headers);
  await browser.close();
});

test("counts that there are not are refused by name", async () => {
  const browser = await visit();
  const errors = await browser.run(() =>
    Promise.all(
      [
        { threads: 0 },
        { threads: 17 },
        { threads: 1.5 },
        { threads: "2" },
        { threads: 2, device: "webgpu" },
      ].map((options) => refusal(load(options))),
    ),
  );
  for (const { name, code, field } of errors)
    assert.deepEqual([name, code, field], ["DecantError", "invalid_option", "threads"]);
  await browser.close();
});

for (const [where, reach, options, kill] of [
  ["in its worker", reachThreads, {}, () => new BroadcastChannel("kill").postMessage(null)],
  ["on the page's thread", reachWorkers, { worker: false }, () => workers[0].terminate()],
]) {
  test(`a thread that is killed is told within seconds by an engine ${where}, and a new load works`, async () => {
    const browser = await visit(reach);
    await browser.run((kill) => (globalThis.kill = (0, eval)(kill)), `(${kill})`);
    const answer = await browser.run(async (options) => {
      const model = await load({ threads: 2, ...options });
      const running = model.generate("abc", { max_new_tokens: 90, eos_token_id: [] });
      const iterator = running[Symbol.asyncIterator]();
      await iterator.next();
      kill();
      // Browsers let a worker end by itself for two seconds, which one that waits does not.
      await new Promise((resolve) => setTimeout(resolve, 4000));
      const started = performance.now();
      const during = await refusal(running.result);
      const waited = performance.now() - started;
      const again = performance.now();
      const later = [
        await refusal(model.generate("abc").result),
        await refusal(model.forward([1, 2])),
      ];
      const waitedLater = performance.now() - again;
      await model.unload();
      const fresh = await load({ threads: 2, ...options });
      const { usage } = await fresh.generate("abc", { max_new_tokens: 3 }).result;
      await fresh.unload();
      return { told: [during, ...later], waited, waitedLater, tokens: usage.completion_tokens };
    }, options);
    for (const { code, message } of answer.told) {
      assert.equal(code, "device_lost", message);
      assert.match(message, /a thread of the engine is gone; load the model again/);
    }
    assert.ok(answer.waited < 20_000, `${answer.waited} ms`);
    assert.ok(answer.waitedLater < 1000, `${answer.waitedLater} ms`);
    assert.equal(answer.tokens, 3);
    assert.deepEqual(await browser.stray(), []);
    await browser.close();
  });
}

/** In the page: threads fail in their round number 300. */
function failThreads() {
  const Real = Worker;
  const link = (script) => URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const inside = link(`
    const { add } = Atomics;
    let left = 300;
    Atomics.add = (...args) => {
      if (left-- === 0) throw new RangeError("on purpose");
      return add(...args);
    };`);
  globalThis.Worker = class extends Real {
    constructor(url, options) {
      super(link(`import "${inside}"; import "${url}";`), options);
    }
  };
}

test("a thread that fails is told at once", async () => {
  const browser = await visit(failThreads);
  const { error, waited } = await browser.run(async () => {
    const model = await load({ threads: 2, worker: false });
    const started = performance.now();
    const error = await refusal(model.generate("abc", { max_new_tokens: 90 }).result);
    const waited = performance.now() - started;
    await model.unload();
    return { error, waited };
  });
  assert.equal(error.code, "device_lost", error.message);
  assert.ok(waited < 3000, `${waited} ms`);
  await browser.close();
});

test("a thread whose script does not load is an error of the load", async () => {
  const browser = await visit(reachWorkers);
  missing = true;
  const error = await browser.run(() => refusal(load({ threads: 2, worker: false })));
  missing = false;
  assert.equal(error.code, "internal");
  assert.match(error.message, /a thread of the engine failed: its script did not load/);
  const left = await browser.run(() => workers.length - ended);
  assert.equal(left, 0);
  await browser.close();
});

test("threads that nobody asked for are done without where they do not start", async () => {
  const browser = await visit(reachWorkers);
  missing = true;
  const found = await browser.run(async () => {
    const model = await load({ worker: false });
    const { usage } = await model.generate("abc", { max_new_tokens: 2 }).result;
    await model.unload();
    const { threads, notes } = model.info;
    return { threads, notes, tokens: usage.completion_tokens, left: workers.length - ended };
  });
  missing = false;
  assert.deepEqual([found.threads, found.tokens, found.left], [1, 2, 0]);
  const why = /^one thread: a thread of the engine failed: its script did not load/;
  assert.ok(
    found.notes.some((note) => why.test(note)),
    JSON.stringify(found.notes),
  );
  await browser.close();
});

test("a load that is given up does not wait for threads that do not start", async () => {
  const browser = await visit(reachWorkers);
  stalled = true;
  const left = await browser.run(async () => {
    const abort = new AbortController();
    const loading = refusal(load({ threads: 2, worker: false, signal: abort.signal }));
    while (workers.length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
    abort.abort();
    await loading;
    for (let i = 0; i < 100 && ended < 1; i += 1)
      await new Promise((resolve) => setTimeout(resolve, 10));
    return workers.length - ended;
  });
  stalled = false;
  // Until then the browser would wait for it, rather than ask again.
  held.destroy();
  assert.equal(left, 0);
  const again = await browser.run(async () => (await load({ threads: 2, worker: false })).info);
  assert.equal(again.threads, 2);
  await browser.close();
});

test("unloading ends the threads", async () => {
  const browser = await visit(reachWorkers);
  const counts = await browser.run(async () => {
    const counts = [];
    for (let i = 0; i < 3; i += 1) {
      const model = await load({ threads: 3, worker: false });
      counts.push(workers.length - ended);
      const running = model.generate("abc", { max_new_tokens: 90, eos_token_id: [] });
      await running[Symbol.asyncIterator]().next();
      await model.unload();
      counts.push(workers.length - ended);
    }
    return counts;
  });
  assert.deepEqual(counts, [2, 0, 2, 0, 2, 0]);
  assert.deepEqual(await browser.stray(), []);
  await browser.close();
});

test("works when the package is served from another origin", async () => {
  const elsewhere = await serve(
    { "/package/": site.packed.dist },
    {
      intercept: (_request, response) => {
        response.setHeader("Access-Control-Allow-Origin", "*");
        return false;
      },
    },
  );
  const browser = await visit();
  const answer = await browser.run(async (origin) => {
    const { load } = await import(`${origin}/package/index.js`);
    const model = await load("/tiny.gguf", { cache: "none", device: "cpu", threads: 2 });
    const { usage } = await model.generate("abc", { max_new_tokens: 2 }).result;
    await model.unload();
    return [model.info.threads, usage.completion_tokens];
  }, elsewhere.origin);
  assert.deepEqual(answer, [2, 2]);
  assert.deepEqual(await browser.stray(), []);
  await browser.close();
  await elsewhere.close();
});
