// The public face on a real engine with the tiny model, in a worker and on the page's own thread.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { open } from "./support/harness.mjs";

let site;
before(async () => {
  site = await open();
});
after(() => site.close());

for (const worker of [true, false]) {
  const where = worker ? "in a worker" : "in the page";
  let browser;

  test(`loads ${where}`, async () => {
    browser = await site.page();
    const { info, steps } = await browser.run(async (worker) => {
      const steps = [];
      const onProgress = (progress) => steps.push(progress);
      const options = { worker, kvCache: "f32", cache: "none", contextLength: 96, onProgress };
      globalThis.model = await decant.load("./tiny.gguf", options);
      globalThis.collect = async (generation) => {
        const events = [];
        for await (const event of generation) events.push(event);
        return events;
      };
      globalThis.refusal = async (promise) => {
        try {
          return { answer: await promise };
        } catch ({ name, code, field, message }) {
          return { name, code, field, message };
        }
      };
      return { info: model.info, steps };
    }, worker);
    assert.equal(info.name, "tiny");
    assert.equal(info.architecture, "llama");
    assert.equal(info.context_length, 96);
    assert.equal(info.kv_cache, "f32");
    assert.equal(info.weight_bytes, 4 * info.parameters);
    // Keys and values of one layer, 96 positions of 16 values, 4 bytes each.
    assert.equal(info.cache_bytes, 2 * 96 * 16 * 4);
    assert.deepEqual(info.warnings, []);
    const size = steps.at(-1).loaded;
    assert.deepEqual(steps[0], { stage: "download", loaded: 0, total: size });
    assert.deepEqual(steps.at(-1), { stage: "prepare", loaded: size, total: size });
  });

  test(`streams and returns the same ${where}`, async () => {
    const { events, result } = await browser.run(async () => {
      const generation = model.generate("Hello", { max_new_tokens: 12 });
      return { events: await collect(generation), result: await generation.result };
    });
    assert.equal(events.length, 12);
    assert.deepEqual(
      events.map(({ token_id }) => token_id),
      result.sequences[0],
    );
    assert.equal(events.map(({ text }) => text).join(""), result.text);
    assert.deepEqual(result.texts, [result.text]);
    assert.equal(result.stop_reason, "max_new_tokens");
    assert.deepEqual(result.usage, { prompt_tokens: 5, completion_tokens: 12, cached_tokens: 0 });
    assert.ok(result.timings.time_to_first_token_ms > 0);
  });

  test(`tells where the device's time went ${where}`, async () => {
    const [plain, profiled, refused, device] = await browser.run(async () => {
      const config = { max_new_tokens: 6 };
      const answer = (profile) => model.generate([1, 2, 3], config, { profile }).result;
      const answers = [await answer(false), await answer(true)];
      return [...answers, await refusal(answer("yes")), model.info.device];
    });
    assert.equal(plain.timings.kernels, undefined);
    assert.deepEqual(profiled.sequences, plain.sequences);
    const { kernels, dispatches } = profiled.timings;
    const timed = kernels.reduce((sum, kernel) => sum + kernel.dispatches, 0);
    // The CPU dispatches nothing: there, what is timed are operations.
    if (device === "webgpu") assert.equal(timed, dispatches);
    assert.ok(timed > 6);
    assert.ok(kernels.every(({ ms }) => ms >= 0));
    assert.ok(kernels.some(({ name }) => /rotary/.test(name)));
    assert.deepEqual([refused.code, refused.field], ["invalid_option", "profile"]);
  });

  test(`gives the result to those who never iterate ${where}`, async () => {
    const [iterated, alone] = await browser.run(async () => {
      const config = { max_new_tokens: 6 };
      const events = await collect(model.generate([1, 2, 3], config));
      const { sequences } = await model.generate([1, 2, 3], config).result;
      return [events.map(({ token_id }) => token_id), sequences[0]];
    });
    assert.deepEqual(alone, iterated);
  });

  test(`break computes at most the run-ahead, and the next call works ${where}`, async () => {
    const { first, next, stats } = await browser.run(async () => {
      const generation = model.generate("abc", { max_new_tokens: 50 });
      for await (const _ of generation) break;
      const stats = await model.stats();
      const first = await generation.result;
      const next = await model.generate("abc", { max_new_tokens: 4 }).result;
      return { first, next, stats };
    });
    assert.equal(first.stop_reason, "aborted");
    assert.ok(first.usage.completion_tokens >= 1 && first.usage.completion_tokens <= 2);
    assert.equal(stats.cache_bytes_used, 0, "pages are free on the line after the loop");
    assert.equal(next.usage.completion_tokens, 4);
    assert.deepEqual(first.sequences[0], next.sequences[0].slice(0, first.usage.completion_tokens));
  });

  test(`a consumer that does not pull holds the work back ${where}`, async () => {
    const counts = await browser.run(async () => {
      const generation = model.generate("abc", { max_new_tokens: 50 });
      const iterator = generation[Symbol.asyncIterator]();
      for (let i = 0; i < 3; i += 1) await iterator.next();
      await new Promise((resolve) => setTimeout(resolve, 200));
      await iterator.return();
      return (await generation.result).usage.completion_tokens;
    });
    assert.equal(counts, 4, "three pulled and one ahead");
  });

  test(`stop() and an abort end the work, one signal for two calls ${where}`, async () => {
    const answer = await browser.run(async () => {
      const stopped = model.generate("abc", { max_new_tokens: 90 });
      const seen = [];
      for await (const event of stopped) {
        seen.push(event);
        if (seen.length === 3) stopped.stop();
      }
      const controller = new AbortController();
      const { signal } = controller;
      const config = { max_new_tokens: 30 };
      const streams = [1, 2].map((id) => model.generate([id], config, { signal }));
      const results = streams.map((stream) => refusal(stream.result));
      const iterator = streams[0][Symbol.asyncIterator]();
      await iterator.next();
      controller.abort(new Error("enough"));
      const late = model.generate("abc", config, { signal });
      return {
        seen: seen.length,
        stop: await stopped.result,
        aborted: await Promise.all([...results, refusal(late.result)]),
        // It needs the whole cache, so it works only when the aborted ones have let go.
        after: (await model.generate("abc", { max_new_tokens: 90 }).result).usage.completion_tokens,
        used: (await model.stats()).cache_bytes_used,
      };
    });
    assert.equal(answer.stop.stop_reason, "aborted");
    assert.ok(answer.seen >= 3 && answer.seen <= 4);
    for (const { name, message } of answer.aborted) {
      assert.deepEqual({ name, message }, { name: "Error", message: "enough" });
    }
    assert.equal(answer.after, 90);
    assert.equal(answer.used, 0);
  });

  test(`two generations at once do not mix ${where}`, async () => {
    const [together, alone] = await browser.run(async () => {
      const run = (id) => model.generate([id, id + 1], { max_new_tokens: 10 }).result;
      const together = await Promise.all([run(1), run(100)]);
      const alone = [await run(1), await run(100)];
      return [together, alone].map((results) => results.map(({ sequences }) => sequences[0]));
    });
    assert.deepEqual(together, alone);
    assert.notDeepEqual(together[0], together[1]);
  });

  test(`a list of prompts is answered together ${where}`, async () => {
    const { result, alone, sequences } = await browser.run(async () => {
      const prompts = ["one", "another"];
      const generation = model.generate(prompts, { max_new_tokens: 5 });
      const events = await collect(generation);
      const alone = [];
      for (const prompt of prompts) {
        alone.push((await model.generate(prompt, { max_new_tokens: 5 }).result).sequences[0]);
      }
      const sequences = events.map(({ sequence }) => sequence);
      return { result: await generation.result, alone, sequences };
    });
    assert.deepEqual(result.sequences, alone);
    assert.deepEqual([...new Set(sequences)].sort(), [0, 1]);
  });

  test(`a seed fixes the draws ${where}`, async () => {
    const [a, b, c] = await browser.run(async () => {
      const run = async (seed) => {
        const config = { do_sample: true, temperature: 2, top_k: 0, seed, max_new_tokens: 20 };
        return (await model.generate("abc", config).result).sequences[0];
      };
      return [await run(0), await run(0), await run(1)];
    });
    assert.deepEqual(a, b);
    assert.notDeepEqual(a, c);
  });

  test(`what cannot be used is refused by name before any work ${where}`, async () => {
    const refusals = await browser.run(async () => {
      const generate = (input, config, options) =>
        refusal(model.generate(input, config, options).result);
      const cyclic = {};
      cyclic.self = cyclic;
      const before = (await model.stats()).generations;
      const refusals = {
        unknown: await generate("a", { temprature: 1 }),
        refused: await generate("a", { penalty_alpha: 0.6 }),
        nan: await generate("a", { temperature: NaN }),
        infinite: await generate("a", { top_p: -Infinity }),
        bigint: await generate("a", { top_k: 5n }),
        hole: await generate("a", { eos_token_id: [1, , 2] }),
        function: await generate("a", { stop_strings: () => "x" }),
        object: await generate("a", { stop_strings: new Map() }),
        cycle: await generate("a", { cyclic }),
        prototype: await generate("a", JSON.parse('{"__proto__": 1}')),
        range: await generate("a", { top_p: 1.5 }),
        list: await generate("a", []),
        input: await generate(5),
        empty: await generate(""),
        id: await generate([1, 999]),
        option: await generate("a", {}, { streamer: [] }),
        signal: await generate("a", {}, { signal: "now" }),
        ids: await refusal(model.forward([1.5])),
        encode: await refusal(model.tokenizer.encode("a", { special: true })),
        flag: await refusal(model.tokenizer.decode([1], { skip_special_tokens: 1 })),
        template: await refusal(model.tokenizer.apply_chat_template([], { tokenize: true })),
        explain: await refusal(model.explain({ top_k: -1 })),
        none: await generate("a", { top_k: undefined, min_p: null, max_new_tokens: 1 }),
      };
      return { refusals, ran: (await model.stats()).generations - before };
    });
    const { none, ...rest } = refusals.refusals;
    assert.equal(none.answer.usage.completion_tokens, 1, "undefined and null mean: not given");
    assert.equal(refusals.ran, 1);
    const told = Object.entries(rest).map(([key, { name, code, field }]) => [
      key,
      name,
      code,
      field,
    ]);
    const option = (key, field) => [key, "DecantError", "invalid_option", field];
    const input = (key, field) => [key, "DecantError", "invalid_input", field];
    assert.deepEqual(told, [
      option("unknown", "temprature"),
      option("refused", "penalty_alpha"),
      option("nan", "temperature"),
      option("infinite", "top_p"),
      option("bigint", "top_k"),
      option("hole", "eos_token_id[1]"),
      option("function", "stop_strings"),
      option("object", "stop_strings"),
      told.find(([key]) => key === "cycle"),
      option("prototype", "__proto__"),
      option("range", "top_p"),
      option("list", "config"),
      input("input", "input"),
      input("empty", undefined),
      input("id", undefined),
      option("option", "streamer"),
      option("signal", "signal"),
      input("ids", "ids"),
      option("encode", "special"),
      option("flag", "skip_special_tokens"),
      option("template", "tokenize"),
      option("explain", "top_k"),
    ]);
    assert.match(rest.cycle.field, /^cyclic\.self\.self/);
    assert.match(rest.unknown.message, /did you mean temperature/);
  });

  test(`explains, counts and evaluates ${where}`, async () => {
    const answer = await browser.run(async () => ({
      plan: await model.explain({ do_sample: true, temperature: 0.5, top_k: 0 }),
      ids: await model.tokenizer.encode("Hé"),
      count: await model.tokenizer.count("Hé"),
      text: await model.tokenizer.decode([72, 195, 169]),
      chat: await model.tokenizer.apply_chat_template([{ role: "user", content: "x" }], {
        add_generation_prompt: true,
      }),
      greedy: (await model.generate([5, 6], { max_new_tokens: 1 }).result).sequences[0][0],
      forward: await model.forward([5, 6]).then(({ data, shape }) => {
        const last = [...data.subarray(data.length - shape[1])];
        return { kind: data.constructor.name, shape, best: last.indexOf(Math.max(...last)) };
      }),
    }));
    assert.equal(answer.plan.strategy, "sample");
    assert.deepEqual(answer.plan.processors, [
      { name: "temperature", args: { temperature: 0.5 }, source: "call" },
    ]);
    assert.equal(answer.plan.values.top_p.source, "library default");
    assert.deepEqual(answer.ids, [72, 195, 169]);
    assert.equal(answer.count, 3);
    assert.equal(answer.text, "Hé");
    assert.equal(answer.chat, "[user]x[assistant]");
    assert.deepEqual(answer.forward, {
      kind: "Float32Array",
      shape: [2, 258],
      best: answer.greedy,
    });
  });

  test(`a thousand calls on one signal leave nothing behind ${where}`, async () => {
    const { stats, before, listeners } = await browser.run(async () => {
      const controller = new AbortController();
      const { signal } = controller;
      const listeners = new Set();
      const [add, remove] = [signal.addEventListener, signal.removeEventListener];
      signal.addEventListener = (type, listener) => {
        listeners.add(listener);
        add.call(signal, type, listener);
      };
      signal.removeEventListener = (type, listener) => {
        listeners.delete(listener);
        remove.call(signal, type, listener);
      };
      const before = await model.stats();
      for (let i = 0; i < 1000; i += 1) {
        const generation = model.generate([i % 256], { max_new_tokens: 2 }, { signal });
        if (i % 3 === 0) for await (const _ of generation) break;
        else if (i % 3 === 1) await generation.result;
        else await collect(generation);
      }
      return { stats: await model.stats(), before, listeners: listeners.size };
    });
    assert.equal(stats.generations - before.generations, 1000);
    assert.equal(stats.failures, before.failures);
    assert.equal(stats.cache_bytes_used, 0);
    assert.equal(listeners, 0);
  });

  test(`unloading ends everything, is silent and repeatable ${where}`, async () => {
    const answer = await browser.run(async () => {
      const running = model.generate("abc", { max_new_tokens: 90 });
      const iterator = running[Symbol.asyncIterator]();
      await iterator.next();
      const pending = refusal(model.forward([1, 2, 3]));
      const unloads = await Promise.all([model.unload(), model.unload()]);
      await model.unload();
      return {
        unloads,
        pending: (await pending).code ?? "answered",
        running: await refusal(running.result),
        late: await refusal(model.generate("a").result),
        stats: await refusal(model.stats()),
      };
    });
    assert.deepEqual(answer.unloads, [undefined, undefined]);
    assert.ok(["closed", "answered"].includes(answer.pending));
    for (const key of ["running", "late", "stats"]) assert.equal(answer[key].code, "closed", key);
    assert.deepEqual(await browser.stray(), []);
    await browser.close();
  });
}

test("an engine without a device to wait for hears a stop in the middle of its work", async () => {
  const browser = await site.page();
  const answer = await browser.run(async () => {
    const model = await decant.load("./tiny.gguf", { device: "cpu", cache: "none" });
    const generation = model.generate("a", { max_new_tokens: 126, eos_token_id: [] });
    const { result } = generation;
    for await (const _ of generation) generation.stop();
    const { stop_reason, usage } = await result;
    await model.unload();
    return { device: model.info.device, stop_reason, tokens: usage.completion_tokens };
  });
  assert.equal(answer.device, "cpu");
  assert.equal(answer.stop_reason, "aborted");
  assert.ok(answer.tokens < 126);
  await browser.close();
});
