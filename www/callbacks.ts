/**
 * The caller's own functions, which live on the page while the engine lives in a worker.
 *
 * The engine asks over the stream's port and waits; ids and scores move, they are not copied. Whatever a
 * function throws, or returns wrongly, ends the generation with that error.
 */

import { optionError } from "./errors.js";
import { describe, plainIds, plainNumbers } from "./plain.js";
import type { Answer, Functions, Question } from "./protocol.js";
import type { GenerateOptions } from "./types.js";

/** The functions of a call, checked. */
export class Callbacks {
  readonly #processors: NonNullable<GenerateOptions["logits_processor"]>;
  readonly #criteria: NonNullable<GenerateOptions["stopping_criteria"]>;
  readonly #allowed: GenerateOptions["prefix_allowed_tokens_fn"];

  constructor(options: GenerateOptions) {
    const { logits_processor, stopping_criteria, prefix_allowed_tokens_fn } = options;
    this.#processors = functions(logits_processor, "logits_processor");
    this.#criteria = functions(stopping_criteria, "stopping_criteria");
    if (prefix_allowed_tokens_fn !== undefined && typeof prefix_allowed_tokens_fn !== "function") {
      throw optionError(
        "prefix_allowed_tokens_fn",
        `expected a function, found ${describe(prefix_allowed_tokens_fn)}`,
      );
    }
    this.#allowed = prefix_allowed_tokens_fn;
  }

  /** How many there are, for the engine; null where there is none. */
  get functions(): Functions | null {
    const processors = this.#processors.length;
    const criteria = this.#criteria.length;
    const restricts = this.#allowed !== undefined;
    return processors + criteria > 0 || restricts ? { processors, criteria, restricts } : null;
  }

  /** What the function says that `question` is for. */
  async answer(question: Question): Promise<Answer> {
    const { input_ids } = question;
    switch (question.type) {
      case "logits_processor": {
        const { index, sequence, scores } = question;
        const made = await this.#processors[index]!(input_ids, scores, sequence);
        return plainNumbers(made ?? scores, (message) =>
          optionError("logits_processor", `function ${index} returned a wrong value: ${message}`),
        );
      }
      case "stopping_criteria": {
        const { index, sequence, scores } = question;
        const verdict: unknown = await this.#criteria[index]!(input_ids, scores, sequence);
        if (typeof verdict === "boolean") return verdict;
        throw optionError(
          "stopping_criteria",
          `function ${index} returned ${describe(verdict)}, allowed: true or false`,
        );
      }
      case "prefix_allowed_tokens_fn":
        return plainIds(await this.#allowed!(question.batch_id, input_ids), (message) =>
          optionError("prefix_allowed_tokens_fn", `returned a wrong value: ${message}`),
        );
    }
  }
}

/** What moves to the engine instead of being copied. */
export function moving(answer: Answer): Transferable[] {
  return typeof answer === "boolean" ? [] : [answer.buffer as ArrayBuffer];
}

function functions<F extends (...args: never[]) => unknown>(
  list: readonly F[] | undefined,
  name: string,
): readonly F[] {
  if (list === undefined) return [];
  if (!Array.isArray(list)) {
    throw optionError(name, `expected a list of functions, found ${describe(list)}`);
  }
  const wrong = list.findIndex((item) => typeof item !== "function");
  // A copy: what the caller does to the list later changes nothing here.
  if (wrong < 0) return [...list];
  throw optionError(name, `expected a function at ${wrong}, found ${describe(list[wrong])}`);
}
