/** Reading a plan knob by knob: what is in force, where it comes from, whether its step runs. */

import { DecantError, type Plan, type PlanStage, type ValueSource } from "decant";
import type { KnobState } from "./control.js";
import { KNOBS, show, type Knob, type KnobKey, type Stage } from "./knobs.js";

/** The sources of a value, in words that fit beside a knob. */
const SOURCES: Record<ValueSource, string> = {
  call: "set here",
  "generation_config.json": "from the model's generation_config",
  "model config": "from the model's config",
  "library default": "library default",
  derived: "from another option",
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
  // A step's own value goes before the option's: without any limit, the default of max_length stands in
  // the plan as a step of max_new_tokens.
  const place = placeOf(knob.key, plan);
  const step = knob.stage === "selection" ? undefined : stepOf(knob.key, plan[knob.stage]);
  const entry =
    step === undefined ? plan.values[knob.key] : { value: valueOf(step), source: step.source };
  const warnings = plan.warnings.filter((warning) => warning.field === knob.key);
  return {
    value: entry?.value,
    source: entry === undefined ? "" : SOURCES[entry.source],
    place,
    note:
      warnings.length === 0
        ? undefined
        : { text: warnings.map(({ message }) => message).join("; "), refused: false },
  };
}

/** One step of the road, short enough for a chip. */
export interface Step {
  stage: Stage;
  name: string;
  value: string;
  source: string;
  /** Its place in the stage, counted from 1. */
  place: number;
  /** The knob that put it there; a step of the model or of the loading has none. */
  key: KnobKey | undefined;
}

/** The whole plan as a row of steps, in the order in which a token meets them. */
export function steps(plan: Plan): Step[] {
  const { selection } = plan;
  // A seed that the library draws is another one in each call, so only a given one belongs to the plan.
  const given = { seed: plan.values["seed"]?.value };
  const chosen = plan.values["do_sample"]?.source ?? "library default";
  return [
    ...plan.processors.map((step, i) => stepAt(step, i, "processors")),
    {
      ...stepAt({ name: selection.name, args: given, source: chosen }, 0, "selection"),
      key: "do_sample",
    },
    ...plan.stopping.map((step, i) => stepAt(step, i, "stopping")),
  ];
}

function stepAt(step: PlanStage, index: number, stage: Stage): Step {
  return {
    stage,
    name: step.name,
    value: show(valueOf(step)).replaceAll("\n", " "),
    source: SOURCES[step.source],
    place: index + 1,
    key: KNOBS.find((knob) => knob.stage === stage && knob.key === step.name)?.key,
  };
}

function stepOf(key: KnobKey, stage: PlanStage[]): PlanStage | undefined {
  return stage.find(({ name }) => name === key);
}

/** What a step was told first: the value of the option that it is named after. */
function valueOf({ args }: PlanStage): unknown {
  return Object.values(args)[0];
}

/** Why the package refused this knob, without the name that the row already shows. */
function refusalOf(key: KnobKey, error: unknown): string | undefined {
  if (!(error instanceof DecantError) || error.field !== key) return undefined;
  return error.message.startsWith(`${key}:`)
    ? error.message.slice(key.length + 1).trim()
    : error.message;
}

function placeOf(key: KnobKey, plan: Plan): number | undefined {
  if (key === "do_sample") return 1;
  if (key === "seed") return plan.strategy === "sample" ? 2 : undefined;
  return steps(plan).find((step) => step.key === key)?.place;
}
