/** The engine's end of the line: answers the page's messages with the compiled engine. */

import type { Engine as WasmModel } from "./bindings/decant.js";
import { Engine } from "./engine.js";
import { DecantError, toWire } from "./errors.js";
import { feed } from "./loader/feed.js";
import { portFetch } from "./loader/fetch-port.js";
import { produce } from "./producer.js";
import type { Calls, Endpoint, Loaded, ToEngine, ToPage } from "./protocol.js";
import { Threads } from "./threads.js";
import type { ModelInfo } from "./types.js";

type LoadMessage = Extract<ToEngine, { type: "load" }>;

/** The models of this thread. */
const models = new Map<number | undefined, WasmModel>();

/** Serves one model over `endpoint`. */
export class Host {
  readonly #endpoint: Endpoint<ToPage, ToEngine>;
  readonly #loading = new AbortController();
  /** Stops every running generation. */
  readonly #streams = new Set<() => Promise<void>>();
  #loaded: Promise<void> = Promise.resolve();
  #engine: Engine | undefined;
  #model: WasmModel | undefined;
  /** Those beside this one, once the model is asked for. */
  #threads: Threads | undefined;
  /** By which others find the model. */
  #id: number | undefined;

  constructor(endpoint: Endpoint<ToPage, ToEngine>) {
    this.#endpoint = endpoint;
    endpoint.addEventListener("message", ({ data }) => this.#receive(data));
  }

  #receive(message: ToEngine): void {
    switch (message.type) {
      case "load":
        this.#id = message.model;
        this.#loaded = this.#load(message);
        return;
      case "call":
        return void this.#call(message.id, message.method, message.args);
      case "share":
        new Host(message.port);
        return message.port.start();
      case "generate": {
        const stream = produce(this.#engine!, this.#model!, message, (id) => models.get(id));
        this.#streams.add(stream.stop);
        void stream.ended.then(() => this.#streams.delete(stream.stop));
        return;
      }
      case "close":
        return void this.#close();
    }
  }

  async #load(message: LoadMessage): Promise<void> {
    try {
      const loaded = await this.#read(message);
      this.#endpoint.postMessage({ type: "loaded", loaded });
    } catch (error) {
      this.#threads?.end();
      this.#endpoint.postMessage({ type: "failed", error: toWire(error) });
    }
  }

  async #read({ source, options, fetch }: LoadMessage): Promise<Loaded> {
    const { signal } = this.#loading;
    const warnings: string[] = [];
    const engine = await Engine.start();
    this.#engine = engine;
    const { threads: count, asked } = options;
    const module = () => engine.run((engine) => engine.module()) as WebAssembly.Module;
    const threads = count > 1 ? new Threads(count, asked, module) : undefined;
    this.#threads = threads;
    engine.death.catch((error) => {
      threads?.end();
      this.#endpoint.postMessage({ type: "dead", error: toWire(error) });
    });
    // Who gives up does not wait for threads that are still starting.
    const giveUp = () => threads?.end();
    signal.addEventListener("abort", giveUp);
    const feeding = feed(engine, source, {
      fetch: fetch === null ? globalThis.fetch.bind(globalThis) : portFetch(fetch),
      cache: options.cache,
      load: options,
      threads,
      signal,
      warn: (message) => {
        if (!warnings.includes(message)) warnings.push(message);
      },
      progress: (stage, loaded, total) =>
        this.#endpoint.postMessage({ type: "progress", progress: { stage, loaded, total } }),
    });
    const model = await feeding.finally(() => signal.removeEventListener("abort", giveUp));
    this.#model = model;
    models.set(this.#id, model);
    const info = engine.run(() => JSON.parse(model.info())) as ModelInfo;
    if (threads?.alone !== undefined) info.notes.push(threads.alone);
    return engine.run(() => ({
      info: { ...info, warnings },
      generationConfig: JSON.parse(model.generation_config()),
    }));
  }

  async #call<M extends keyof Calls>(id: number, method: M, args: Calls[M][0]): Promise<void> {
    try {
      const engine = this.#engine;
      const model = this.#model;
      if (engine === undefined || model === undefined)
        throw new DecantError("internal", "no model is loaded");
      const value = await engine.wait(async () => CALLS[method](model, ...args));
      this.#endpoint.postMessage({ type: "answer", id, value });
    } catch (error) {
      this.#endpoint.postMessage({ type: "refused", id, error: toWire(error) });
    }
  }

  async #close(): Promise<void> {
    this.#loading.abort();
    await this.#loaded;
    await Promise.all([...this.#streams].map((stop) => stop()));
    this.#threads?.end();
    try {
      this.#engine?.run(() => this.#model?.close());
    } catch {
      // A dead engine holds nothing that it could give back.
    }
    this.#model = undefined;
    models.delete(this.#id);
    this.#endpoint.postMessage({ type: "closed" });
  }
}

type Method<M extends keyof Calls> = (
  model: WasmModel,
  ...args: Calls[M][0]
) => Calls[M][1] | Promise<Calls[M][1]>;

const CALLS: { [M in keyof Calls]: Method<M> } = {
  explain: (model, config) => JSON.parse(model.explain(JSON.stringify(config))),
  stats: (model) => JSON.parse(model.stats()),
  encode: (model, text, special) => Array.from(model.encode(text, special)),
  decode: (model, ids, skip) => model.decode(Uint32Array.from(ids), skip),
  chat: (model, messages, options) =>
    model.apply_chat_template(JSON.stringify(messages), JSON.stringify(options)),
  forward: async (model, ids) => {
    const data = await model.forward(Uint32Array.from(ids));
    return { data, shape: [ids.length, data.length / ids.length] };
  },
};
