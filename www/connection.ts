/**
 * The page's end of the line to an engine: calls, streams, and the one way they all end.
 *
 * The engine lives in a worker of its own or, when the caller asked for that, on the page's thread behind
 * a message channel; nothing else differs.
 */

import { DecantError, fromWire } from "./errors.js";
import type {
  Calls,
  Endpoint,
  Loaded,
  ToEngine,
  ToPage,
  WireCall,
  WireLoadOptions,
  WireSource,
} from "./protocol.js";
import { startWorker } from "./start.js";
import type { Line } from "./stream.js";
import type { LoadProgress } from "./types.js";

interface Pending {
  resolve(value: never): void;
  reject(error: unknown): void;
}

/** Where engines run: one worker, or the page's own thread. */
interface Place {
  /** Connections that are open. */
  users: number;
  /** Called with the place's failure. */
  readonly failed: Set<(error: Error) => void>;
  /** Ends it. */
  end(): void;
}

/** The place of everything that runs on the page's thread. */
const PAGE: Place = { users: 0, failed: new Set(), end: () => {} };

let connections = 0;

/** One model's engine, from its start to its end. */
export class Connection {
  /** By which other models at the same place find this one. */
  readonly id = connections++;
  readonly #endpoint: Endpoint<ToEngine, ToPage>;
  readonly #place: Place;
  readonly #calls = new Map<number, Pending>();
  readonly #streams = new Set<(error: unknown) => void>();
  /** Resolve when streams that were asked to end have ended. */
  readonly #ending = new Set<Promise<void>>();
  readonly #loading = Promise.withResolvers<Loaded>();
  readonly #closing = Promise.withResolvers<void>();
  #onProgress: ((progress: LoadProgress) => void) | undefined;
  #next = 0;
  /** Why nothing can be asked any more. */
  #over: Error | undefined;

  private constructor(endpoint: Endpoint<ToEngine, ToPage>, place: Place) {
    this.#endpoint = endpoint;
    this.#place = place;
    place.users += 1;
    place.failed.add(this.#failed);
    endpoint.addEventListener("message", ({ data }) => this.#receive(data));
    // A load that was aborted has nobody left to listen.
    this.#loading.promise.catch(() => {});
  }

  /** Starts an engine in a worker. */
  static inWorker(): Connection {
    const worker = startWorker(
      () => new Worker(new URL("./worker.js", import.meta.url), { type: "module" }),
      new URL("./worker.js", import.meta.url),
    );
    const place: Place = { users: 0, failed: new Set(), end: () => worker.terminate() };
    worker.addEventListener("error", (event) => {
      event.preventDefault();
      const why = event.message || "its script did not load";
      const error = new DecantError("internal", `the engine's worker failed: ${why}`);
      for (const fail of [...place.failed]) fail(error);
    });
    return new Connection(worker, place);
  }

  /** Lets the engine of `other` serve one more model. */
  static beside(other: Connection): Connection {
    if (other.#over !== undefined) throw other.#over;
    const { port1, port2 } = new MessageChannel();
    other.#post({ type: "share", port: port2 }, [port2]);
    const connection = new Connection(port1, other.#place);
    port1.start();
    return connection;
  }

  /** Starts an engine on this thread. */
  static async inPage(): Promise<Connection> {
    const { Host } = await import("./host.js");
    const { port1, port2 } = new MessageChannel();
    new Host(port2);
    const connection = new Connection(port1, PAGE);
    port1.start();
    port2.start();
    return connection;
  }

  /** Loads the model; the only thing to do with a new connection. */
  load(
    source: WireSource,
    options: WireLoadOptions,
    fetch: MessagePort | null,
    onProgress: ((progress: LoadProgress) => void) | undefined,
  ): Promise<Loaded> {
    this.#onProgress = onProgress;
    const model = this.id;
    this.#post({ type: "load", model, source, options, fetch }, fetch === null ? [] : [fetch]);
    return this.#loading.promise;
  }

  /** Asks for one answer. */
  call<M extends keyof Calls>(method: M, ...args: Calls[M][0]): Promise<Calls[M][1]> {
    if (this.#over !== undefined) return Promise.reject(this.#over);
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject });
      this.#post({ type: "call", id, method, args } as ToEngine);
    });
  }

  /**
   * Begins a generation. `fail` is called if the engine goes away before the line is released.
   *
   * Streams that were asked to end still hold cache pages while their last token is computed; the new one
   * begins when they have let go, so that ending one call always makes room for the next.
   */
  generate(call: WireCall, fail: (error: unknown) => void): Line {
    if (this.#over !== undefined) throw this.#over;
    const { port1, port2 } = new MessageChannel();
    const ended = Promise.withResolvers<void>();
    this.#streams.add(fail);
    void Promise.all(this.#ending).then(() => {
      if (this.#over === undefined) {
        this.#post({ type: "generate", ...call, port: port2 }, [port2]);
      }
    });
    return {
      port: port1,
      ending: () => this.#ending.add(ended.promise),
      release: () => {
        this.#streams.delete(fail);
        this.#ending.delete(ended.promise);
        ended.resolve();
      },
    };
  }

  /** Ends everything, at any time and any number of times. */
  close(): Promise<void> {
    if (this.#over === undefined) {
      this.#post({ type: "close" });
      this.#end(new DecantError("closed", "the model was unloaded"));
    }
    return this.#closing.promise;
  }

  #receive(message: ToPage): void {
    switch (message.type) {
      case "progress":
        if (this.#over === undefined) this.#onProgress?.(message.progress);
        return;
      case "loaded":
        return this.#loading.resolve(message.loaded);
      case "failed":
      case "dead":
        return this.#die(fromWire(message.error));
      case "answer":
        return this.#settle(message.id)?.resolve(message.value as never);
      case "refused":
        return this.#settle(message.id)?.reject(fromWire(message.error));
      case "closed":
        this.#leave();
        return this.#closing.resolve();
    }
  }

  /** Whether `other`'s engine runs at the same place, so that the two models can meet. */
  isBeside(other: Connection): boolean {
    return this.#place === other.#place;
  }

  /** The place itself failed. */
  #failed = (error: Error): void => this.#die(error);

  /** Leaves the place; the last one ends it. */
  #leave(): void {
    if (!this.#place.failed.delete(this.#failed)) return;
    if (this.#endpoint instanceof MessagePort) this.#endpoint.close();
    this.#place.users -= 1;
    if (this.#place.users === 0) this.#place.end();
  }

  #settle(id: number): Pending | undefined {
    const pending = this.#calls.get(id);
    this.#calls.delete(id);
    return pending;
  }

  /** Ends everything without waiting for an engine that cannot answer. */
  #die(error: Error): void {
    this.#end(error);
    this.#leave();
    this.#closing.resolve();
  }

  /** Every way out passes here; the first one says why. */
  #end(error: Error): void {
    this.#over ??= error;
    this.#loading.reject(error);
    for (const { reject } of this.#calls.values()) reject(error);
    this.#calls.clear();
    for (const fail of [...this.#streams]) fail(error);
    this.#streams.clear();
  }

  #post(message: ToEngine, transfer: Transferable[] = []): void {
    this.#endpoint.postMessage(message, transfer);
  }
}
