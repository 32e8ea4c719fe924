// An engine that dies: every call says so at once, nothing hangs, and a new load works.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { open } from "./support/harness.mjs";

let site;
before(async () => {
  site = await open();
});
after(() => site.close());

/**
 * Keeps hold of the engine's own exports, which are otherwise out of reach, and of what the device has read for it
 * once it is `held`, until `release` is called.
 */
function reachEngine() {
  const original = WebAssembly.instantiateStreaming;
  WebAssembly.instantiateStreaming = async (...args) => {
    const result = await original.apply(WebAssembly, args);
    globalThis.engine = result.instance.exports;
    return result;
  };
  const { promise, resolve } = Promise.withResolvers();
  globalThis.release = resolve;
  const map = GPUBuffer.prototype.mapAsync;
  GPUBuffer.prototype.mapAsync = async function (...args) {
    const { again } = globalThis;
    await map.apply(this, args);
    if (globalThis.held && !again) await promise;
  };
}

/** Keeps hold of the devices that the engine asks for. */
function reachDevices() {
  globalThis.devices = [];
  const original = GPUAdapter.prototype.requestDevice;
  GPUAdapter.prototype.requestDevice = async function (...args) {
    const device = await original.apply(this, args);
    devices.push(device);
    return device;
  };
}

test("a device that is lost is told once by what runs, at once by what follows, and can be replaced", async () => {
  const browser = await site.page({ before: reachDevices });
  const answer = await browser.run(async () => {
    const refusal = (promise) =>
      promise.then(
        () => "an answer",
        ({ name, code }) => ({ name, code }),
      );
    const options = { device: "webgpu", worker: false, cache: "none" };
    const load = () => decant.load("./tiny.gguf", options);
    const model = await load();
    const running = model.generate("abc", { max_new_tokens: 90 });
    const iterator = running[Symbol.asyncIterator]();
    await iterator.next();
    devices.at(-1).destroy();
    const during = await refusal(running.result);
    const later = [
      await refusal(model.generate("abc").result),
      await refusal(model.forward([1, 2])),
    ];
    await model.unload();
    await model.unload();
    const fresh = await load();
    const { usage } = await fresh.generate("abc", { max_new_tokens: 3 }).result;
    await fresh.unload();
    return { during, later, tokens: usage.completion_tokens, devices: devices.length };
  });
  const lost = { name: "DecantError", code: "device_lost" };
  assert.deepEqual(answer, { during: lost, later: [lost, lost], tokens: 3, devices: 2 });
  assert.deepEqual(await browser.stray(), []);
  await browser.close();
});

for (const [name, before, why] of [
  [
    "no WebGPU",
    () => Object.defineProperty(Navigator.prototype, "gpu", { get: () => undefined }),
    /WebGPU/,
  ],
  ["no adapter", () => (GPU.prototype.requestAdapter = async () => null), /adapter/],
  [
    "an adapter below the kernels' limits",
    () => {
      const limit = { get: () => 4 };
      Object.defineProperty(GPUSupportedLimits.prototype, "maxStorageBuffersPerShaderStage", limit);
    },
    /the adapter offers 4 storage buffers in a shader, the kernels need 8/,
  ],
]) {
  test(`${name} is a typed error before anything is fetched, and "auto" takes the CPU`, async () => {
    const browser = await site.page({ before });
    const fetched = () => site.server.seen.get("GET /tiny.gguf") ?? 0;
    const load = (device) =>
      browser.run(async (device) => {
        const options = { device, worker: false, cache: "none" };
        try {
          const model = await decant.load("./tiny.gguf", options);
          const { device, reason } = model.info;
          const { sequences } = await model.generate("abc", { max_new_tokens: 3 }).result;
          await model.unload();
          return { device, reason, tokens: sequences[0].length };
        } catch ({ code, message }) {
          return { code, message };
        }
      }, device);
    const earlier = fetched();
    const { code, message } = await load("webgpu");
    assert.equal(code, "unsupported", message);
    assert.match(message, why);
    assert.equal(fetched(), earlier);
    const { device, reason, tokens } = await load("auto");
    assert.deepEqual([device, tokens], ["cpu", 3]);
    assert.match(reason, why);
    assert.deepEqual(await browser.stray(), []);
    await browser.close();
  });
}

for (const [name, panic] of [
  ["a panic in a call", "probe_panic"],
  ["a panic in a task of the engine", "probe_panic_later"],
]) {
  test(`${name} ends what runs, is told by every later call, and a new load works`, async () => {
    const browser = await site.page({ before: reachEngine });
    const answer = await browser.run(async (panic) => {
      const refusal = async (promise) => {
        const late = new Promise((resolve) => setTimeout(resolve, 10_000, "nothing"));
        try {
          return await Promise.race([promise.then(() => "an answer"), late]);
        } catch ({ code, message }) {
          return { code, message };
        }
      };
      const options = { device: "webgpu", worker: false, cache: "none" };
      const load = () => decant.load("./tiny.gguf", options);
      const model = await load();
      const running = model.generate("abc", { max_new_tokens: 90 });
      const iterator = running[Symbol.asyncIterator]();
      await iterator.next();
      globalThis.held = true;
      try {
        engine[panic]();
      } catch (error) {
        if (!(error instanceof WebAssembly.RuntimeError)) throw error;
      }
      const during = [
        // At most the event that was computed ahead comes before the end.
        await refusal(iterator.next().then(() => iterator.next())),
        await refusal(running.result),
      ];
      const later = [
        await refusal(model.stats()),
        await refusal(model.generate("a").result),
        await refusal(model.tokenizer.encode("a")),
      ];
      await model.unload();
      globalThis.again = true;
      const fresh = await load();
      const { usage } = await fresh.generate("abc", { max_new_tokens: 3 }).result;
      // What the device still had to tell the dead engine reaches nobody now.
      release();
      await new Promise((resolve) => setTimeout(resolve, 100));
      const { sequences } = await fresh.generate("abc", { max_new_tokens: 3 }).result;
      const tokens = [usage.completion_tokens, sequences[0].length];
      return { told: [...during, ...later], tokens };
    }, panic);
    for (const { code, message } of answer.told) {
      assert.equal(code, "internal");
      assert.match(message, /^the engine is dead: .*on purpose.*; load the model again$/s);
    }
    assert.deepEqual(answer.tokens, [3, 3]);
    assert.deepEqual(await browser.stray(), []);
    await browser.close();
  });
}
