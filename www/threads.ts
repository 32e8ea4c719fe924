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

/** How many threads the option `threads` asks for; when it does not, and there is one, why. */
export function countThreads(value: unknown): { threads: number; alone: string | null } {
  const isolated = globalThis.crossOriginIsolated === true;
  if (value === undefined) {
    if (!isolated) {
      const alone = `one thread: the page is not cross-origin isolated, which takes the headers ${HEADERS}`;
      return { threads: 1, alone };
    }
    const threads = choose(globalThis.navigator?.hardwareConcurrency ?? 1);
    return { threads, alone: threads === 1 ? "one thread: there is one processor" : null };
  }
  if (!Number.isInteger(value) || (value as number) < 1 || (value as number) > MOST) {
    throw optionError("threads", `expected an integer from 1 to ${MOST}, found ${describe(value)}`);
  }
  if ((value as number) > 1 && !isolated) {
    const message = `${value} threads share memory, which only a page that is cross-origin isolated may: serve it with the headers ${HEADERS}, or ask for 1`;
    throw optionError("threads", message);
  }
  return { threads: value as number, alone: null };
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
  readonly #count: number;
  readonly #module: () => WebAssembly.Module;
  readonly #workers: Worker[] = [];
  #crew: Crew | undefined;
  #ended = false;

  constructor(count: number, module: () => WebAssembly.Module) {
    this.#count = count;
    this.#module = module;
  }

  /** Starts the others; resolves with this thread's line to them when all are ready. */
  async start(): Promise<Crew> {
    const count = this.#count;
    const memory = Crew.memory(count);
    const crew = (this.#crew = new Crew(memory, 0, count));
    const module = this.#module();
    const starts = Array.from({ length: count - 1 }, (_, i) =>
      this.#startOne({ module, memory, index: i + 1, count }, crew),
    );
    try {
      await Promise.all(starts);
    } catch (error) {
      this.end();
      throw error;
    }
    return crew;
  }

  /** Ends the workers, whatever they do; nobody waits for them any more. */
  end(): void {
    this.#ended = true;
    this.#crew?.leave();
    for (const worker of this.#workers.splice(0)) worker.terminate();
  }

  #startOne(start: ThreadStart, crew: Crew): Promise<void> {
    if (this.#ended) throw new DecantError("closed", "the model was unloaded");
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
      worker.addEventListener("message", ({ data }: MessageEvent<ThreadAnswer>) => {
        if (data.ready) resolve();
        else fail(data.message);
      });
      worker.postMessage(start);
    });
  }
}
