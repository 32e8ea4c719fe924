/** What chat and completion share: streaming into an element and saying how it ended. */

import type { GenerationConfig, GenerationResult, Input, Model, StopReason } from "decant";
import { Reader, say } from "./announce.js";
import { duration, plural, rate } from "./format.js";
import type { Runner } from "./runner.js";

/** Why an answer ended, in words. */
const REASONS: Record<StopReason, string> = {
  eos: "the model ended it",
  max_new_tokens: "cut at max_new_tokens",
  max_length: "cut at max_length",
  max_time: "cut at max_time",
  stop_string: "ended at a stop string",
  custom: "ended by a criterion of the page",
  aborted: "stopped by you",
  context_full: "the context is full",
};

/** Streams an answer into `target`, as plain text that grows, and reads it out at a calm pace. */
export async function stream(
  runner: Runner,
  model: Model,
  input: Input,
  config: GenerationConfig,
  target: HTMLElement,
  onText: (piece: string) => void,
): Promise<GenerationResult> {
  const node = target.appendChild(document.createTextNode(""));
  const reader = new Reader();
  target.dataset["streaming"] = "waiting";
  target.dataset["waited"] = "0";
  const began = performance.now();
  const clock = window.setInterval(() => {
    target.dataset["waited"] = String(Math.round((performance.now() - began) / 1000));
  }, 1000);
  target.setAttribute("aria-busy", "true");
  say("Reading the prompt");
  try {
    const result = await runner.run(model, input, config, (piece) => {
      window.clearInterval(clock);
      target.dataset["streaming"] = "text";
      node.appendData(piece);
      reader.push(piece);
      onText(piece);
    });
    reader.finish(`Finished: ${REASONS[result.stop_reason]}.`);
    return result;
  } finally {
    window.clearInterval(clock);
    delete target.dataset["streaming"];
    target.removeAttribute("aria-busy");
  }
}

/** One line about a finished answer: why it ended, how long it is, how fast it came. */
export function outcome({ stop_reason, usage, timings, plan }: GenerationResult): string {
  const { seed } = plan.selection.args;
  const cached = usage.cached_tokens === 0 ? "" : ` (${usage.cached_tokens} still in the cache)`;
  return [
    `${stop_reason}: ${REASONS[stop_reason]}`,
    `${plural(usage.completion_tokens, "token")} from ${usage.prompt_tokens}${cached}`,
    ...(timings.decode_tokens_per_second === null
      ? []
      : [`${rate(timings.decode_tokens_per_second)} tok/s`]),
    `first after ${duration(timings.time_to_first_token_ms)}`,
    ...(seed === undefined ? [] : [`seed ${seed}`]),
  ].join(" · ");
}
