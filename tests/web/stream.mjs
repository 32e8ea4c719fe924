// The contract of a stream, against an engine that the test plays itself.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { open } from "./support/harness.mjs";
import { bundle } from "./support/bundle.mjs";

let site;
let browser;

before(async () => {
  const stream = await bundle("www/stream.ts");
  site = await open({
    intercept: (_request, response, url) => {
      if (url.pathname !== "/stream.js") return false;
      response.writeHead(200, { "Content-Type": "text/javascript" }).end(stream);
      return true;
    },
  });
  browser = await site.page();
  await browser.run(async () => {
    const { Generation } = await import("/stream.js");
    /** A generation whose engine is `engine`: what it heard, and how to answer. */
    globalThis.play = (signal) => {
      const engine = { heard: [], starts: 0, released: 0 };
      const generation = new Generation((fail) => {
        engine.starts += 1;
        engine.fail = fail;
        const { port1, port2 } = new MessageChannel();
        port2.onmessage = ({ data }) => {
          engine.heard.push(data.type);
          engine.onHeard?.(data.type);
        };
        engine.event = (token_id) =>
          port2.postMessage({
            type: "event",
            event: { sequence: 0, token_id, text: `${token_id}` },
          });
        engine.end = (stop_reason) => port2.postMessage({ type: "end", result: { stop_reason } });
        engine.error = (error) => port2.postMessage({ type: "error", error });
        const ending = () => {};
        return { port: port1, ending, release: () => (engine.released += 1) };
      }, signal);
      return { generation, engine, iterator: () => generation[Symbol.asyncIterator]() };
    };
    /** Long enough for every message that is on its way. */
    globalThis.settle = () => new Promise((resolve) => setTimeout(resolve, 20));
    /** "pending", or what the promise came to. */
    globalThis.state = async (promise) => {
      const pending = settle().then(() => "pending");
      return Promise.race([
        promise.then(
          (value) => value,
          (error) => `error: ${error}`,
        ),
        pending,
      ]);
    };
    /** A signal that counts its listeners. */
    globalThis.counted = () => {
      const controller = new AbortController();
      const { signal } = controller;
      const listeners = new Set();
      for (const [name, change] of [
        ["addEventListener", "add"],
        ["removeEventListener", "delete"],
      ]) {
        const original = signal[name].bind(signal);
        signal[name] = (type, listener, ...rest) => {
          listeners[change](listener);
          original(type, listener, ...rest);
        };
      }
      return { controller, signal, listeners };
    };
  });
});

after(() => site.close());

check(
  "nothing starts before the first next()",
  async () => {
    const { engine, iterator } = play();
    const it = iterator();
    await settle();
    const starts = engine.starts;
    it.next();
    await settle();
    return { starts, then: engine.starts, heard: engine.heard };
  },
  { starts: 0, then: 1, heard: ["pull"] },
);

check(
  "each next() grants exactly one event",
  async () => {
    const { engine, iterator } = play();
    const it = iterator();
    const first = it.next();
    await settle();
    engine.event(1);
    engine.event(2);
    const values = [await first, await it.next()].map(({ value }) => value.token_id);
    await settle();
    return { values, heard: engine.heard };
  },
  { values: [1, 2], heard: ["pull", "pull"] },
);

check(
  "parallel next() calls resolve in order",
  async () => {
    const { engine, iterator } = play();
    const it = iterator();
    const both = [it.next(), it.next(), it.next()];
    await settle();
    engine.event(1);
    engine.event(2);
    engine.end("eos");
    return (await Promise.all(both)).map(({ done, value }) => (done ? "done" : value.token_id));
  },
  [1, 2, "done"],
);

check(
  "return() ends a pending next() at once, and itself waits for the end of the work",
  async () => {
    const { engine, iterator } = play();
    const it = iterator();
    const next = it.next();
    await settle();
    const returned = it.return();
    const during = [await state(next), await state(returned)];
    engine.end("aborted");
    return { during, after: await state(returned), heard: engine.heard, released: engine.released };
  },
  {
    during: [{ done: true, value: undefined }, "pending"],
    after: { done: true, value: undefined },
    heard: ["pull", "stop"],
    released: 1,
  },
);

check(
  "break has cleaned up before the next line",
  async () => {
    const { generation, engine } = play();
    engine.onHeard = (type) => {
      if (type === "pull") engine.event(1);
      if (type === "stop") setTimeout(() => engine.end("aborted"), 30);
    };
    for await (const _ of generation) break;
    const released = engine.released;
    return { released, reason: (await generation.result).stop_reason };
  },
  { released: 1, reason: "aborted" },
);

check(
  "throw() ends the work and rethrows",
  async () => {
    const { engine, iterator } = play();
    const it = iterator();
    engine.onHeard = (type) => type === "stop" && engine.end("aborted");
    it.next();
    await settle();
    const thrown = await state(it.throw(new Error("mine")));
    return { thrown, heard: engine.heard, released: engine.released };
  },
  {
    thrown: "error: Error: mine",
    heard: ["pull", "stop"],
    released: 1,
  },
);

check(
  "a second iteration throws and says what to do instead",
  async () => {
    const { generation, iterator } = play();
    iterator();
    try {
      generation[Symbol.asyncIterator]();
    } catch ({ name, code, message }) {
      return { name, code, message };
    }
  },
  {
    name: "DecantError",
    code: "closed",
    message: "a generation can be iterated once; await its result, or call generate again",
  },
);

check(
  "result alone starts the work and asks for all of it",
  async () => {
    const { generation, engine } = play();
    const result = generation.result;
    await settle();
    engine.event(1);
    engine.end("eos");
    return { heard: engine.heard, starts: engine.starts, result: await result };
  },
  {
    heard: ["drain"],
    starts: 1,
    result: { stop_reason: "eos" },
  },
);

check(
  "events that came before iteration began are not lost",
  async () => {
    const { generation, engine } = play();
    const result = generation.result;
    await settle();
    engine.event(1);
    engine.event(2);
    engine.end("eos");
    await result;
    const ids = [];
    for await (const { token_id } of generation) ids.push(token_id);
    return ids;
  },
  [1, 2],
);

check(
  "stop() lets computed events through, then ends",
  async () => {
    const { generation, engine, iterator } = play();
    const it = iterator();
    it.next();
    await settle();
    engine.event(1);
    engine.event(2);
    await settle();
    generation.stop();
    await settle();
    engine.end("aborted");
    const rest = [await it.next(), await it.next()];
    return {
      rest: rest.map(({ done, value }) => (done ? "done" : value.token_id)),
      heard: engine.heard,
      reason: (await generation.result).stop_reason,
    };
  },
  {
    rest: [2, "done"],
    heard: ["pull", "stop"],
    reason: "aborted",
  },
);

check(
  "a generation that was left before it began is empty, and its result is aborted",
  async () => {
    const { generation, engine, iterator } = play();
    const it = iterator();
    await it.return();
    const starts = engine.starts;
    const next = await it.next();
    const result = generation.result;
    await settle();
    const heard = [...engine.heard];
    engine.end("aborted");
    return { starts, next, heard, reason: (await result).stop_reason };
  },
  {
    starts: 0,
    next: { done: true, value: undefined },
    heard: ["stop", "drain"],
    reason: "aborted",
  },
);

check(
  "an error is told once, by next() and by result",
  async () => {
    const { generation, engine, iterator } = play();
    const it = iterator();
    const nexts = [it.next(), it.next()];
    await settle();
    engine.error({ code: "invalid_scores", name: "DecantError", message: "no scores" });
    return {
      nexts: await Promise.all(nexts.map(state)),
      later: await it.next(),
      result: await state(generation.result),
    };
  },
  {
    nexts: ["error: DecantError: no scores", { done: true, value: undefined }],
    later: { done: true, value: undefined },
    result: "error: DecantError: no scores",
  },
);

check(
  "an engine that goes away ends the stream",
  async () => {
    const { generation, engine, iterator } = play();
    const next = iterator().next();
    engine.fail(new Error("gone"));
    return [await state(next), await state(generation.result), engine.released];
  },
  ["error: Error: gone", "error: Error: gone", 1],
);

check(
  "a signal that was aborted before starts nothing",
  async () => {
    const { signal, controller, listeners } = counted();
    controller.abort();
    const { generation, engine, iterator } = play(signal);
    const next = await state(iterator().next());
    const result = await state(generation.result);
    return { next, result, starts: engine.starts, listeners: listeners.size };
  },
  {
    next: "error: AbortError: signal is aborted without reason",
    result: "error: AbortError: signal is aborted without reason",
    starts: 0,
    listeners: 0,
  },
);

check(
  "a signal during the work rejects with its reason and stops the engine",
  async () => {
    const { signal, controller, listeners } = counted();
    const { generation, engine, iterator } = play(signal);
    const it = iterator();
    const next = it.next();
    const listening = listeners.size;
    controller.abort("my reason");
    const told = [await state(next), await state(it.next()), await state(generation.result)];
    await settle();
    return { listening, told, heard: engine.heard, listeners: listeners.size };
  },
  {
    listening: 1,
    told: ["error: my reason", { done: true, value: undefined }, "error: my reason"],
    heard: ["pull", "stop"],
    listeners: 0,
  },
);

check(
  "a signal after the end changes nothing",
  async () => {
    const { signal, controller, listeners } = counted();
    const { generation, engine } = play(signal);
    const result = generation.result;
    await settle();
    engine.end("eos");
    await result;
    controller.abort();
    return { reason: (await generation.result).stop_reason, listeners: listeners.size };
  },
  { reason: "eos", listeners: 0 },
);

check(
  "one signal ends two streams",
  async () => {
    const { signal, controller, listeners } = counted();
    const streams = [play(signal), play(signal)];
    const nexts = streams.map(({ iterator }) => iterator().next());
    controller.abort();
    const told = await Promise.all(nexts.map(state));
    return { told: told.map((text) => text.slice(0, 17)), listeners: listeners.size };
  },
  {
    told: ["error: AbortError", "error: AbortError"],
    listeners: 0,
  },
);

/** Runs `work` in the page and compares what it answers. */
function check(name, work, expected) {
  test(name, async () => {
    assert.deepEqual(await browser.run(work), expected);
    assert.deepEqual(await browser.stray(), []);
  });
}
