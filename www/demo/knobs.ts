/**
 * The common settings of a generation as data: which stage it acts on, how it is entered, what it does.
 * The order inside a stage is the order in which the stage uses them.
 */

import type { GenerationConfig } from "decant";

/** The stages that have knobs, in the order a token passes through them. */
export type Stage = "processors" | "selection" | "stopping";

export type KnobKey = Extract<
  keyof GenerationConfig,
  | "repetition_penalty"
  | "temperature"
  | "top_k"
  | "top_p"
  | "min_p"
  | "do_sample"
  | "seed"
  | "max_length"
  | "max_new_tokens"
  | "max_time"
  | "stop_strings"
  | "eos_token_id"
>;

export interface Knob {
  key: KnobKey;
  stage: Stage;
  /** A sentence for a person who has not met the name before. */
  help: string;
  entry:
    | { kind: "number"; step: number; slider?: { min: number; max: number } }
    | { kind: "choice"; options: { value: boolean; label: string }[] }
    | { kind: "ids" }
    | { kind: "strings" };
}

export const KNOBS: readonly Knob[] = [
  {
    key: "repetition_penalty",
    stage: "processors",
    help: "Above 1, tokens already in prompt or answer become less likely.",
    entry: { kind: "number", step: 0.01, slider: { min: 0.8, max: 2 } },
  },
  {
    key: "temperature",
    stage: "processors",
    help: "Divides the scores: low is sharp, high is adventurous.",
    entry: { kind: "number", step: 0.05, slider: { min: 0.05, max: 2 } },
  },
  {
    key: "top_k",
    stage: "processors",
    help: "Keeps the k best tokens; 0 keeps all.",
    entry: { kind: "number", step: 1, slider: { min: 0, max: 200 } },
  },
  {
    key: "top_p",
    stage: "processors",
    help: "Keeps the fewest tokens whose probabilities reach p.",
    entry: { kind: "number", step: 0.01, slider: { min: 0, max: 1 } },
  },
  {
    key: "min_p",
    stage: "processors",
    help: "Drops tokens less likely than this share of the best one.",
    entry: { kind: "number", step: 0.01, slider: { min: 0, max: 1 } },
  },
  {
    key: "do_sample",
    stage: "selection",
    help: "Draw from the distribution, or always take the best token.",
    entry: {
      kind: "choice",
      options: [
        { value: false, label: "Best token" },
        { value: true, label: "Sample" },
      ],
    },
  },
  {
    key: "seed",
    stage: "selection",
    help: "The same seed and settings draw the same tokens again.",
    entry: { kind: "number", step: 1 },
  },
  {
    key: "eos_token_id",
    stage: "stopping",
    help: "The ids that end an answer, with commas between.",
    entry: { kind: "ids" },
  },
  {
    key: "stop_strings",
    stage: "stopping",
    help: "Ends when one of these appears. One a line; \\n and \\t are understood.",
    entry: { kind: "strings" },
  },
  {
    key: "max_new_tokens",
    stage: "stopping",
    help: "Most tokens in the answer. Wins over max_length.",
    entry: { kind: "number", step: 1, slider: { min: 1, max: 512 } },
  },
  {
    key: "max_length",
    stage: "stopping",
    help: "Most tokens in prompt and answer together.",
    entry: { kind: "number", step: 1 },
  },
  {
    key: "max_time",
    stage: "stopping",
    help: "Seconds after which no further token is begun.",
    entry: { kind: "number", step: 1 },
  },
];

/** The text of an entry as the value the package expects; `undefined` when empty. Numbers stay unjudged:
 * whether 7 is a sensible `top_p` is for the package to say, in its own words. */
export function parse(knob: Knob, text: string): unknown {
  if (text.trim() === "") return undefined;
  switch (knob.entry.kind) {
    case "number":
      return Number(text);
    case "choice":
      return text === "true";
    case "ids": {
      const ids = text
        .split(/[\s,]+/)
        .filter(Boolean)
        .map(Number);
      return ids.length === 1 ? ids[0] : ids;
    }
    case "strings":
      return text
        .split("\n")
        .filter((line) => line !== "")
        .map(unescape);
  }
}

/** A value of the package as the text of an entry; the inverse of `parse`. */
export function show(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return escape(value);
  if (Array.isArray(value)) {
    return typeof value[0] === "string" ? value.map(escape).join("\n") : value.join(", ");
  }
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}

function unescape(line: string): string {
  const meaning: Record<string, string> = { n: "\n", t: "\t", "\\": "\\" };
  return line.replace(/\\([nt\\])/g, (_, letter: string) => meaning[letter] ?? letter);
}

function escape(line: string): string {
  return line.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\t", "\\t");
}
