/** The engine's end of the caller's functions: asks the page over the stream's port and waits. */

import type { Answer, Functions, Question, ToConsumer } from "./protocol.js";

/** The functions as the engine calls them (`src/web/callbacks.rs`). */
export class Asking {
  readonly processors: number;
  readonly criteria: number;
  readonly restricts: boolean;
  readonly #port: MessagePort;
  #waiting: { resolve(answer: Answer): void; reject(error: Error): void } | undefined;
  #over = false;

  constructor({ processors, criteria, restricts }: Functions, port: MessagePort) {
    this.processors = processors;
    this.criteria = criteria;
    this.restricts = restricts;
    this.#port = port;
  }

  process(
    index: number,
    sequence: number,
    input_ids: Uint32Array,
    scores: Float32Array,
  ): Promise<Answer> {
    const question = { type: "logits_processor", index, sequence, input_ids, scores } as const;
    return this.#ask(question, [input_ids.buffer, scores.buffer]);
  }

  allowed(batch_id: number, input_ids: Uint32Array): Promise<Answer> {
    const question = { type: "prefix_allowed_tokens_fn", batch_id, input_ids } as const;
    return this.#ask(question, [input_ids.buffer]);
  }

  stops(
    index: number,
    sequence: number,
    input_ids: Uint32Array,
    scores: Float32Array,
  ): Promise<Answer> {
    const question = { type: "stopping_criteria", index, sequence, input_ids, scores } as const;
    return this.#ask(question, [input_ids.buffer, scores.buffer]);
  }

  /** The page's answer to the question that waits. */
  answer(answer: Answer): void {
    this.#waiting?.resolve(answer);
  }

  /** The page's function failed. */
  fail(message: string): void {
    this.#waiting?.reject(new Error(message));
  }

  /** No question will be answered any more. */
  stop(): void {
    this.#over = true;
    this.fail("the generation was stopped");
  }

  /** The engine asks one question at a time. */
  #ask(question: Question, moving: ArrayBufferLike[]): Promise<Answer> {
    if (this.#over) return Promise.reject(new Error("the generation was stopped"));
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    this.#waiting = { resolve, reject };
    const message: ToConsumer = { type: "ask", question };
    this.#port.postMessage(message, moving as ArrayBuffer[]);
    return promise;
  }
}
