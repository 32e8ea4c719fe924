/**
 * The compiled engine: starting it, and telling when it is dead.
 *
 * A panic in the engine is a trap in WebAssembly: whatever was running stops where it was, and its memory
 * can no longer be trusted. The panic hook reports the message before the trap; from then on every call
 * fails with it.
 */

import { DecantError, type ErrorCode } from "./errors.js";

export type Bindings = typeof import("./bindings/decant.js");

/**
 * A module with one instruction of WebAssembly's relaxed SIMD, a product of bytes: browsers without it refuse
 * to compile this, and would refuse the faster of the two engines.
 */
const RELAXED_SIMD = Uint8Array.from([
  0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, 0x01, 0x05, 0x01, 0x60, 0x00, 0x01, 0x7b, 0x03,
  0x02, 0x01, 0x00, 0x0a, 0x0f, 0x01, 0x0d, 0x01, 0x01, 0x7b, 0x20, 0x00, 0x20, 0x00, 0x20, 0x00,
  0xfd, 0x93, 0x02, 0x0b,
]);

/** A running instance of the engine. */
export class Engine {
  readonly #death = Promise.withResolvers<never>();
  #dead: DecantError | undefined;

  readonly #bindings: Bindings;

  private constructor(bindings: Bindings) {
    this.#bindings = bindings;
    this.#death.promise.catch(() => {});
  }

  /** Compiles and starts the engine; once a thread, unless the last one died. */
  static start(): Promise<Engine> {
    if (running === undefined) {
      const starting = Engine.#start();
      running = starting;
      starting.catch(() => {
        if (running === starting) running = undefined;
      });
    }
    return running;
  }

  static async #start(): Promise<Engine> {
    started?.bindings.__wbg_reset_state();
    started ??= await compile();
    const { bindings, path } = started;
    const engine = new Engine(bindings);
    bindings.start((message: string) => engine.#die(message));
    engine.#watch(path);
    return engine;
  }

  /** Rejects when the engine dies, and never resolves. */
  get death(): Promise<never> {
    return this.#death.promise;
  }

  /** Runs `work` on the engine, which must be alive; its errors become errors of this package. */
  run<T>(work: (engine: Bindings) => T): T {
    if (this.#dead !== undefined) throw this.#dead;
    try {
      return work(this.#bindings);
    } catch (error) {
      throw this.#translate(error);
    }
  }

  /** The same for work with a promise, which also ends when the engine dies meanwhile. */
  async wait<T>(work: (engine: Bindings) => Promise<T>): Promise<T> {
    try {
      return await Promise.race([this.run(work), this.death]);
    } catch (error) {
      throw this.#translate(error);
    }
  }

  /**
   * Listens for traps that no call meets: those of a task that the engine resumes on its own. Without a
   * panic (when the stack overflows, say) nothing else would tell of them, and its promise would never settle.
   */
  #watch(file: string): void {
    const check = (event: Event, error: unknown) => {
      if (!isTrap(error) || !error.stack?.includes(file)) return;
      event.preventDefault();
      this.#die(error.message);
    };
    const onError = (event: ErrorEvent) => check(event, event.error);
    const onRejection = (event: PromiseRejectionEvent) => check(event, event.reason);
    globalThis.addEventListener("error", onError);
    globalThis.addEventListener("unhandledrejection", onRejection);
    this.#death.promise.catch(() => {
      // The trap of a panic is reported after its message, so listen a moment longer.
      setTimeout(() => {
        globalThis.removeEventListener("error", onError);
        globalThis.removeEventListener("unhandledrejection", onRejection);
      }, 1000);
    });
  }

  #translate(error: unknown): unknown {
    if (this.#dead !== undefined) return this.#dead;
    if (isTrap(error)) {
      this.#die(error.message);
      return this.#dead;
    }
    // The engine's own errors are plain errors with a code (`src/web/error.rs`).
    const { code, field, message } = error as Error & { code?: ErrorCode; field?: string };
    return code === undefined || error instanceof DecantError
      ? error
      : new DecantError(code, message, field);
  }

  #die(message: string): void {
    if (this.#dead !== undefined) return;
    this.#dead = new DecantError(
      "internal",
      `the engine is dead: ${message}; load the model again`,
    );
    running = undefined;
    this.#death.reject(this.#dead);
  }
}

/** Whether `error` is how WebAssembly stops: a trap, or a stack that is too deep. */
function isTrap(error: unknown): error is Error {
  return (
    error instanceof WebAssembly.RuntimeError ||
    (error instanceof RangeError && error.message.includes("call stack"))
  );
}

/** The engine of this thread, if it is alive. */
let running: Promise<Engine> | undefined;
/** The compiled module, if there has been an engine. */
let started: { bindings: Bindings; path: string } | undefined;

/** Downloads and compiles the module that suits the browser. */
async function compile(): Promise<{ bindings: Bindings; path: string }> {
  const { bindings: found, url } = await bindings();
  await found.default({ module_or_path: url });
  return { bindings: found, path: url.pathname };
}

/** The bindings of the module that suits the browser, and where it is. */
export async function bindings(): Promise<{ bindings: Bindings; url: URL }> {
  if (WebAssembly.validate(RELAXED_SIMD)) {
    return {
      bindings: await import("./bindings/relaxed/decant.js"),
      url: new URL("./decant-relaxed.wasm", import.meta.url),
    };
  }
  return {
    bindings: await import("./bindings/decant.js"),
    url: new URL("./decant.wasm", import.meta.url),
  };
}
