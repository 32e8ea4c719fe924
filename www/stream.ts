/**
 * A generation as the page sees it: lazy, consumed once, ended in one place.
 *
 * It is a hand-written iterator. In an async generator `return()` waits behind a pending `next()`, so a
 * consumer that leaves while a token is being computed could not end the work.
 */

import { moving, type Callbacks } from "./callbacks.js";
import { DecantError, fromWire } from "./errors.js";
import type { Question, ToConsumer, ToProducer } from "./protocol.js";
import type { GenerationEvent, GenerationResult } from "./types.js";

/** A stream's line to the engine. */
export interface Line {
  port: MessagePort;
  /** The caller's own functions. */
  callbacks?: Callbacks;
  /** Called when the work was asked to end. */
  ending(): void;
  /** Called once, when the work has ended. */
  release(): void;
}

/** Begins the work; `fail` is called if the engine goes away. */
export type Start = (fail: (error: unknown) => void) => Line;

interface Waiter {
  resolve(result: IteratorResult<GenerationEvent, undefined>): void;
  reject(error: unknown): void;
}

/** How a generation ended. */
type Outcome = { result: GenerationResult } | { error: unknown };

const DONE = { done: true, value: undefined } as const;

/**
 * Text as it is generated. Iterate over it, or await {@link result}, or both.
 *
 * Nothing happens before the first `next()` or the first look at `result`.
 */
export class Generation implements AsyncIterable<GenerationEvent> {
  readonly #start: Start;
  readonly #signal: AbortSignal | undefined;
  #line: Line | undefined;
  #iterated = false;
  #stopped = false;
  /** The consumer has left: what still arrives is thrown away. */
  #left = false;
  #outcome: Outcome | undefined;
  /** What one of the caller's functions has thrown: how the generation then ends. */
  #thrown: { error: unknown } | undefined;
  readonly #events: GenerationEvent[] = [];
  readonly #waiters: Waiter[] = [];
  readonly #ended = Promise.withResolvers<void>();
  #result: Promise<GenerationResult> | undefined;

  /** @internal */
  constructor(start: Start, signal?: AbortSignal) {
    this.#start = start;
    this.#signal = signal;
  }

  /**
   * The whole answer. Looking at it asks for all of the work, whether or not anyone iterates; after
   * `break` or {@link stop} it is the answer so far, with the stop reason `"aborted"`. It rejects with
   * the signal's reason when the signal ended the work, and never counts as an unhandled rejection.
   */
  get result(): Promise<GenerationResult> {
    if (this.#result === undefined) {
      this.#result = this.#ended.promise.then(() => {
        const outcome = this.#outcome!;
        if ("error" in outcome) throw outcome.error;
        return outcome.result;
      });
      this.#result.catch(() => {});
      this.#begin();
      this.#send({ type: "drain" });
    }
    return this.#result;
  }

  /** Ends the work. Iteration ends after the events that were already computed. */
  stop(): void {
    this.#stopped = true;
    this.#send({ type: "stop" });
    if (this.#outcome === undefined) this.#line?.ending();
  }

  [Symbol.asyncIterator](): AsyncIterator<GenerationEvent, undefined> {
    if (this.#iterated) {
      throw new DecantError(
        "closed",
        "a generation can be iterated once; await its result, or call generate again",
      );
    }
    this.#iterated = true;
    return {
      next: () => this.#next(),
      return: async () => {
        await this.#leave();
        return DONE;
      },
      throw: async (error: unknown) => {
        await this.#leave();
        throw error;
      },
    };
  }

  #next(): Promise<IteratorResult<GenerationEvent, undefined>> {
    if (this.#left) return Promise.resolve(DONE);
    this.#begin();
    const event = this.#events.shift();
    if (event !== undefined) {
      this.#send({ type: "pull" });
      return Promise.resolve({ done: false, value: event });
    }
    const outcome = this.#outcome;
    if (outcome !== undefined) {
      // An error is told once; afterwards the iterator is at its end, like a generator that threw.
      this.#left = true;
      return "error" in outcome ? Promise.reject(outcome.error) : Promise.resolve(DONE);
    }
    const { promise, resolve, reject } =
      Promise.withResolvers<IteratorResult<GenerationEvent, undefined>>();
    this.#waiters.push({ resolve, reject });
    this.#send({ type: "pull" });
    return promise;
  }

  /** The consumer leaves: pending `next()` calls end at once, this one when the work has ended. */
  async #leave(): Promise<void> {
    this.#left = true;
    this.#events.length = 0;
    for (const waiter of this.#waiters.splice(0)) waiter.resolve(DONE);
    this.stop();
    if (this.#line !== undefined) await this.#ended.promise;
  }

  #begin(): void {
    if (this.#line !== undefined || this.#outcome !== undefined) return;
    if (this.#signal?.aborted) {
      this.#end({ error: this.#signal.reason });
      return;
    }
    try {
      this.#line = this.#start((error) => {
        this.#end({ error });
        this.#release();
      });
    } catch (error) {
      this.#end({ error });
      return;
    }
    this.#signal?.addEventListener("abort", this.#abort);
    this.#line.port.onmessage = ({ data }: MessageEvent<ToConsumer>) => this.#receive(data);
    if (this.#stopped) this.stop();
  }

  #receive(message: ToConsumer): void {
    switch (message.type) {
      case "event": {
        if (this.#left || this.#outcome !== undefined) return;
        const waiter = this.#waiters.shift();
        if (waiter !== undefined) waiter.resolve({ done: false, value: message.event });
        else this.#events.push(message.event);
        return;
      }
      case "ask":
        return void this.#answer(message.question);
      case "end":
        this.#end({ result: message.result });
        return this.#release();
      case "error":
        this.#end(this.#thrown ?? { error: fromWire(message.error) });
        return this.#release();
    }
  }

  /** Lets one of the caller's functions answer. Nobody waits for it once the end was asked for. */
  async #answer(question: Question): Promise<void> {
    const callbacks = this.#line?.callbacks;
    if (callbacks === undefined || this.#stopped) return;
    try {
      const answer = await callbacks.answer(question);
      this.#send({ type: "answer", answer }, moving(answer));
    } catch (error) {
      this.#thrown ??= { error };
      this.#send({ type: "failed", message: String(error) });
    }
  }

  /** The consumer hears at once; the line stays until the engine has put the work down. */
  #abort = (): void => {
    this.stop();
    this.#events.length = 0;
    this.#end({ error: this.#signal!.reason });
  };

  /** Every way out for the consumer passes here, once. */
  #end(outcome: Outcome): void {
    if (this.#outcome !== undefined) return;
    this.#outcome = outcome;
    this.#signal?.removeEventListener("abort", this.#abort);
    const waiters = this.#waiters.splice(0);
    const first = waiters[0];
    if ("error" in outcome && first !== undefined) {
      this.#left = true;
      waiters.shift();
      first.reject(outcome.error);
    }
    for (const waiter of waiters) waiter.resolve(DONE);
    this.#ended.resolve();
  }

  #release(): void {
    this.#line?.port.close();
    this.#line?.release();
  }

  #send(message: ToProducer, transfer: Transferable[] = []): void {
    if (this.#outcome === undefined) this.#line?.port.postMessage(message, transfer);
  }
}
