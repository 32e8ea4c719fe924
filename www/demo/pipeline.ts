/** The pipeline panel: every stage in order, every knob at the stage it acts on, lit where it runs. */

import type { Model, Plan } from "decant";
import { control, type Control, type KnobState } from "./control.js";
import { byId, element, setText } from "./dom.js";
import { failure } from "./errors.js";
import { KNOBS, type Knob, type Stage } from "./knobs.js";
import { stateOf, steps, type Explained, type Step } from "./plan.js";
import { PRESETS, type Settings } from "./settings.js";

const PRESET_NAMES: [keyof typeof PRESETS, string, string][] = [
  ["untouched", "Untouched", "Send nothing: the model file and the library decide"],
  ["balanced", "Balanced", "Sampling at temperature 0.7 with top_p 0.9"],
  ["inventive", "Inventive", "Sampling at temperature 1.1 with min_p 0.05"],
];

/** Asks the model for a new plan whenever a setting changes, and hands it to everyone who draws it. */
export class Pipeline extends EventTarget {
  readonly #settings: Settings;
  readonly #controls: [Knob, Control][];
  #model: Model | null = null;
  #asked = 0;
  #explained: Explained | null = null;
  #lastPlan: Plan | null = null;

  constructor(settings: Settings) {
    super();
    this.#settings = settings;
    this.#controls = KNOBS.map((knob) => [knob, control(knob, settings)]);
    for (const [knob, { root }] of this.#controls) byId(`${knob.stage}-knobs`).append(root);
    byId("presets").append(
      ...PRESET_NAMES.map(([name, label, title]) => {
        const button = element("button", { type: "button", title }, label);
        button.addEventListener("click", () => settings.replace(PRESETS[name]));
        return button;
      }),
    );
    settings.addEventListener("change", () => void this.refresh());
    this.#draw();
  }

  /** The latest answer of `explain`, or `null` while no model is loaded. */
  get explained(): Explained | null {
    return this.#explained;
  }

  setModel(model: Model | null): void {
    this.#model = model;
    this.#explained = null;
    this.#lastPlan = null;
    void this.refresh();
  }

  /** Asks for the plan again. Of several answers under way only the newest is drawn. */
  async refresh(): Promise<void> {
    const turn = ++this.#asked;
    if (this.#model !== null) {
      let explained: Explained;
      try {
        explained = { plan: await this.#model.explain(this.#settings.config()) };
      } catch (error) {
        explained = { error, last: this.#lastPlan };
      }
      if (turn !== this.#asked) return;
      if ("plan" in explained) this.#lastPlan = explained.plan;
      this.#explained = explained;
    }
    this.#draw();
    this.dispatchEvent(new Event("change"));
  }

  #draw(): void {
    const states = new Map<Knob, KnobState | null>(
      this.#controls.map(([knob]) => [knob, this.#explained && stateOf(knob, this.#explained)]),
    );
    for (const [knob, { update }] of this.#controls) update(states.get(knob) ?? null);

    for (const stage of ["processors", "selection", "stopping"] satisfies Stage[]) {
      setText(byId(`${stage}-summary`), summary(stage, this.#explained));
    }
    drawFixed(this.#explained);
    // What belongs to no knob is said at the top; nothing the package says is lost.
    const unplaced = unplacedNotes(this.#explained, states);
    byId("plan-notes").hidden = unplaced.length === 0;
    setText(byId("plan-notes"), unplaced.join(" "));
  }
}

function summary(stage: Stage, explained: Explained | null): string {
  if (explained === null) return "";
  if ("error" in explained) return "no plan";
  const { plan } = explained;
  if (stage === "selection") return plan.strategy;
  const length = plan[stage].length;
  return length === 0 ? "none active" : `${length} active, on the ${plan.home}`;
}

/** Rows for the steps of the plan that no knob sets, such as the end of the context. */
function drawFixed(explained: Explained | null): void {
  for (const row of document.querySelectorAll("#panel .fixed")) row.remove();
  if (explained === null || "error" in explained) return;
  const all = steps(explained.plan);
  for (const step of all.filter(({ key }) => key === undefined)) {
    const row = fixedRow(step);
    // Behind the row of the step before it, or first.
    const before = all.find(({ stage, place }) => stage === step.stage && place === step.place - 1);
    const list = byId(`${step.stage}-knobs`);
    const anchor = list.querySelector(`[data-key="${before?.key ?? before?.name}"]`);
    if (anchor === null) list.prepend(row);
    else anchor.after(row);
  }
}

function fixedRow({ name, value, source, place }: Step): HTMLElement {
  const bead = element(
    "span",
    { className: "bead", attributes: { "aria-hidden": "true" } },
    String(place),
  );
  const row = element(
    "div",
    { className: "knob fixed" },
    bead,
    element(
      "div",
      { className: "knob-head" },
      element("span", { className: "name" }, name),
      element("output", {}, value),
      element("span", { className: "source" }, source),
    ),
  );
  row.dataset["key"] = name;
  row.dataset["active"] = "true";
  return row;
}

function unplacedNotes(explained: Explained | null, states: Map<Knob, KnobState | null>): string[] {
  if (explained === null) return [];
  if ("error" in explained) {
    return [...states.values()].some((state) => state?.note) ? [] : [failure(explained.error).text];
  }
  const keys = new Set<string>(KNOBS.map((knob) => knob.key));
  return explained.plan.warnings
    .filter(({ field }) => !keys.has(field))
    .map(({ field, message }) => `${field}: ${message}`);
}
