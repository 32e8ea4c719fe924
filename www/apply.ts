/** `applyProcessors`: what a config does to one row of scores, stage by stage, without a model. */

import type { GenerationConfig } from "./config.js";
import { Engine } from "./engine.js";
import { inputError, optionError } from "./errors.js";
import { plainConfig } from "./model.js";
import { describe, knownKeys, plainIds, plainNumbers } from "./plain.js";
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
  const floats = (values: unknown, name: string) =>
    plainNumbers(values, (message) => optionError(name, message));
  const row = floats(scores, "scores");
  const ids = plainIds(input_ids, (message) => inputError("input_ids", message));
  const { prompt_length = ids.length, unconditional_scores } = options;
  if (!Number.isInteger(prompt_length) || prompt_length < 0 || prompt_length > ids.length) {
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
