/** `applyProcessors`: what a config does to one row of scores, stage by stage, without a model. */

import type { GenerationConfig } from "./config.js";
import { Engine } from "./engine.js";
import { optionError } from "./errors.js";
import { plainConfig, plainIds } from "./model.js";
import { describe, knownKeys } from "./plain.js";
import type { AppliedProcessors, ApplyOptions, ProcessorStep } from "./types.js";

const OPTIONS: readonly (keyof ApplyOptions)[] = ["prompt_length", "unconditional_scores"];

/**
 * Runs the processors that `generate` would run with `config` on the scores of the token after `input_ids`.
 *
 * `scores` holds one score for each token of the vocabulary; `config` alone says what runs, without any
 * model's own options. The engine runs on this thread, and is started where it does not run yet.
 */
export async function applyProcessors(
  scores: ArrayLike<number>,
  input_ids: readonly number[] | Uint32Array,
  config: GenerationConfig = {},
  options: ApplyOptions = {},
): Promise<AppliedProcessors> {
  knownKeys(options, OPTIONS, "applyProcessors");
  const row = floats(scores, "scores");
  const ids = Uint32Array.from(plainIds(input_ids, "input_ids"));
  const { prompt_length = ids.length, unconditional_scores } = options;
  if (!Number.isInteger(prompt_length) || prompt_length < 0) {
    throw optionError(
      "prompt_length",
      `expected an integer from 0 to ${ids.length}, found ${describe(prompt_length)}`,
    );
  }
  const unconditional =
    unconditional_scores === undefined
      ? undefined
      : floats(unconditional_scores, "unconditional_scores");
  const call = JSON.stringify(plainConfig(config));
  const engine = await Engine.start();
  return engine.run(({ Applied }) => {
    const applied = new Applied(row, ids, prompt_length, unconditional, call);
    try {
      const told = JSON.parse(applied.steps()) as Omit<ProcessorStep, "scores">[];
      const steps = told.map((step, index) => ({ ...step, scores: applied.scores(index) }));
      return { scores: steps.at(-1)?.scores ?? row, steps };
    } finally {
      applied.free();
    }
  });
}

/** A copy of `values` as floats; what is not a number, NaN excepted, is refused. */
function floats(values: unknown, name: string): Float32Array {
  if (Array.isArray(values) || (ArrayBuffer.isView(values) && !(values instanceof DataView))) {
    const list = Array.from(values as ArrayLike<unknown>);
    const wrong = list.findIndex((value) => typeof value !== "number");
    if (wrong < 0) return Float32Array.from(list as number[]);
    throw optionError(name, `expected a number at ${wrong}, found ${describe(list[wrong])}`);
  }
  throw optionError(name, `expected a list of numbers, found ${describe(values)}`);
}
