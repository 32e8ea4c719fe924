/** The engine's threads: how many there are to be, and starting and ending their workers. */

import { Crew } from "./crew.js";
import { DecantError, optionError } from "./errors.js";
import { describe } from "./plain.js";
import { startWorker } from "./start.js";

/** The most threads that can be asked for. */
const MOST = 16;
/** The most that are taken unasked. */
const UNASKED = 8;

const HEADERS =
  "Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp or credentialless";

/** What a thread's worker is told first. */
export interface ThreadStart {
  module: WebAssembly.Module;
  memory: SharedArrayBuffer;
  index: number;
  count: number;
}

/** What it answers: that it is ready, or why not. */
export type ThreadAnswer = { ready: true } | { ready: false; message: string };

/** How many threads the option `threads` asks for, and whether it does; when there is one unasked, why. */
export function countThreads(value: unknown): {
  threads: number;
  asked: boolean;
  alone: string | null;
} {
  const isolated = globalThis.crossOriginIsolated === true;
  if (value === undefined) {
    if (!isolated) {
      const alone = `one thread: the page is not cross-origin isolated, which takes the headers ${HEADERS}`;
      return { threads: 1, asked: false, alone };
    }
    const threads = choose(globalThis.navigator?.hardwareConcurrency ?? 1);
    const alone = threads === 1 ? "one thread: there is one processor" : null;
    return { threads, asked: false, alone };
  }
  if (!Number.isInteger(value) || (value as number) < 1 || (value as number) > MOST) {
    throw optionError("threads", `expected an integer from 1 to ${MOST}, found ${describe(value)}`);
  }
  if ((value as number) > 1 && !isolated) {
    const message = `${value} threads share memory, which only a page that is cross-origin isolated may: serve it with the headers ${HEADERS}, or ask for 1`;
    throw optionError("threads", message);
  }
  return { threads: value as number, asked: true, alone: null };
}

/**
 * Half of the logical processors, but two of two. Threads have equal shares and wait for one another many times a
 * token, so one that is slow makes all slow: the second thread of a core shares its vector unit, phones' other
 * half is of slow cores, and the page and the browser need some, too.
 */
function choose(processors: number): number {
  return Math.max(1, Math.min(UNASKED, processors, Math.max(2, processors >> 1)));
}

/** Threads that are started once the engine finds that it needs them; what it knows as `Threads`. */
export class Threads {
  /** Why there is one thread instead of several that nobody asked for. */
  alone: string | undefined;

  readonly #count: number;
  readonly #asked: boolean;
  readonly #module: () => WebAssembly.Module;
  readonly #workers: Worker[] = [];
  readonly #end = Promise.withResolvers<never>();
  #crew: Crew | undefined;
  #ended = false;

  constructor(count: number, asked: boolean, module: () => WebAssembly.Module) {
    this.#count = count;
    this.#asked = asked;
    this.#module = module;
    this.#end.promise.catch(() => {});
  }

  /**
   * Starts the others; resolves with this thread's line to them when all are ready. Where some do not start that
   * nobody asked for, this one works alone.
   */
  async start(): Promise<Crew> {
    try {
      return await this.#startAll();
    } catch (error) {
      const ended = this.#ended;
      this.end();
      if (this.#asked || ended) throw error;
      this.alone = `one thread: ${(error as Error).message}`;
      // One meets nobody, so that memory need not be shared.
      return new Crew(new ArrayBuffer(Crew.bytes(1)), 0, 1);
    }
  }

  async #startAll(): Promise<Crew> {
    const count = this.#count;
    const memory = new SharedArrayBuffer(Crew.bytes(count));
    const crew = (this.#crew = new Crew(memory, 0, count));
    const module = this.#module();
    const starts = Array.from({ length: count - 1 }, (_, i) =>
      this.#startOne({ module, memory, index: i + 1, count }, crew),
    );
    await Promise.race([Promise.all(starts), this.#end.promise]);
    return crew;
  }

  /** Ends the workers, whatever they do; nobody waits for them any more. */
  end(): void {
    this.#ended = true;
    this.#end.reject(new DecantError("closed", "the model was unloaded"));
    this.#crew?.leave();
    for (const worker of this.#workers.splice(0)) worker.terminate();
  }

  #startOne(start: ThreadStart, crew: Crew): Promise<void> {
    const worker = startWorker(
      () => new Worker(new URL("./thread.js", import.meta.url), { type: "module" }),
      new URL("./thread.js", import.meta.url),
    );
    this.#workers.push(worker);
    return new Promise((resolve, reject) => {
      const fail = (why: string) => {
        crew.leave();
        reject(new DecantError("internal", `a thread of the engine failed: ${why}`));
      };
      worker.addEventListener("error", (event) => {
        event.preventDefault();
        fail(event.message || "its script did not load");
      });
      worker.addEventListener("messageerror", () => fail("its message cannot be read"));
      worker.addEventListener("message", ({ data }: MessageEvent<ThreadAnswer>) => {
        if (data.ready) resolve();
        else fail(data.message);
      });
      worker.postMessage(start);
    });
  }
}
