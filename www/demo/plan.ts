/** Reading a plan knob by knob: what is in force, where it comes from, whether its step runs. */

import { DecantError, type Plan, type ValueSource } from "decant";
import type { KnobState } from "./control.js";
import { KNOBS, show, type Knob, type KnobKey, type Stage } from "./knobs.js";

/** The sources of a value, in words that fit beside a knob. */
const SOURCES: Record<ValueSource, string> = {
  call: "set here",
  "generation_config.json": "from the model's generation_config",
  "model config": "from the model's config",
  "library default": "library default",
};

/** The answer of `explain`: a plan, or the error with which the package refused the settings,
 * and the last plan there was. */
export type Explained = { plan: Plan } | { error: unknown; last: Plan | null };

/** What the row of one knob shows. */
export function stateOf(knob: Knob, explained: Explained): KnobState {
  if ("error" in explained) {
    const refused = refusalOf(knob.key, explained.error);
    // What was in force before stays in view, so that one wrong value does not empty the panel.
    return {
      value: explained.last?.values[knob.key]?.value,
      source: "",
      place: undefined,
      note: refused === undefined ? undefined : { text: refused, refused: true },
    };
  }
  const { plan } = explained;
  const entry = plan.values[knob.key];
  const warnings = plan.warnings.filter((warning) => warning.field === knob.key);
  return {
    value: entry?.value,
    source: entry === undefined ? "" : SOURCES[entry.source],
    place: placeOf(knob, plan),
    note:
      warnings.length === 0
        ? undefined
        : { text: warnings.map(({ message }) => message).join(" "), refused: false },
  };
}

/** One step of the road, short enough for a chip. */
export interface Step {
  stage: Stage;
  text: string;
  /** The knob that put it there. */
  key?: KnobKey;
}

/** The whole plan as a row of steps, in the order in which a token meets them. */
export function steps(plan: Plan): Step[] {
  const of = (name: string, stage: Step["stage"], value: unknown): Step => {
    const key = KNOBS.find((knob) => knob.stage === stage && stepNames(knob).includes(name))?.key;
    const words = show(value).replaceAll("\n", " ");
    return { stage, text: words === "" ? name : `${name} ${words}`, ...(key && { key }) };
  };
  return [
    ...plan.processors.map(({ name, args }) => of(name, "processors", Object.values(args)[0])),
    { stage: "selection", text: plan.strategy, key: "do_sample" },
    ...plan.stopping.map(({ name, args }) => of(name, "stopping", Object.values(args)[0])),
  ];
}

/** Why the package refused this knob, without the name that the row already shows. */
function refusalOf(key: KnobKey, error: unknown): string | undefined {
  if (!(error instanceof DecantError) || error.field !== key) return undefined;
  return error.message.startsWith(`${key}:`)
    ? error.message.slice(key.length + 1).trim()
    : error.message;
}

function placeOf(knob: Knob, plan: Plan): number | undefined {
  if (knob.key === "do_sample") return 1;
  if (knob.key === "seed") return plan.strategy === "sample" ? 2 : undefined;
  const list = knob.stage === "processors" ? plan.processors : plan.stopping;
  const index = list.findIndex(({ name }) => stepNames(knob).includes(name));
  return index === -1 ? undefined : index + 1;
}

/** The names under which a knob's step stands in the plan. */
function stepNames(knob: Knob): string[] {
  return knob.key === "eos_token_id" ? ["eos_token_id", "eos"] : [knob.key];
}
