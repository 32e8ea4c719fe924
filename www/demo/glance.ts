/** The plan at a glance: the road from prompt to stop as one line, above the prompt box. */

import { byId, element } from "./dom.js";
import { KNOBS, type KnobKey, type Stage } from "./knobs.js";
import { steps, type Explained } from "./plan.js";

const STAGES: readonly Stage[] = ["processors", "selection", "stopping"];

/** Draws the line. `reveal` is called with the knob behind a step when the step is pressed. */
export function drawGlance(explained: Explained | null, reveal: (key: KnobKey) => void): void {
  const all = explained !== null && "plan" in explained ? steps(explained.plan) : [];
  for (const stage of STAGES) {
    const own = all.filter((step) => step.stage === stage);
    const list = byId(`glance-${stage}`);
    if (own.length === 0) {
      list.replaceChildren(
        element("li", {}, explained === null ? "–" : "error" in explained ? "refused" : "none"),
      );
      continue;
    }
    list.replaceChildren(
      ...own.map(({ name, value, key }) => {
        const text = value === "" ? name : `${name} ${value}`;
        const shown = KNOBS.find((knob) => knob.key === key);
        if (shown === undefined) return element("li", {}, text);
        const button = element("button", { type: "button", title: shown.help }, text);
        button.addEventListener("click", () => reveal(shown.key));
        return element("li", {}, button);
      }),
    );
  }
}
