/** The pipeline panel is a column on a wide screen and a modal sheet on a narrow one. */

import { byId } from "./dom.js";
import type { KnobKey } from "./knobs.js";

/** The width at which both columns fit; the same number stands in styles/layout.css. */
const wide = window.matchMedia("(min-width: 60rem)");

/** Puts the panel into the form that fits the screen, now and whenever the width changes. */
export function initPanel(): void {
  const panel = byId<HTMLDialogElement>("panel");
  const fit = () => {
    if (panel.open) panel.close();
    // `show()` would move the focus into the column; the attribute only makes it visible.
    if (wide.matches) panel.setAttribute("open", "");
  };
  wide.addEventListener("change", fit);
  fit();
  byId("panel-open").addEventListener("click", () => panel.showModal());
  byId("panel-close").addEventListener("click", () => panel.close());
}

/** Brings a knob into view and gives it the focus. */
export function revealKnob(key: KnobKey): void {
  const panel = byId<HTMLDialogElement>("panel");
  if (!panel.open) panel.showModal();
  const row = panel.querySelector<HTMLElement>(`[data-key="${key}"]`);
  row?.scrollIntoView({ block: "center" });
  row
    ?.querySelector<HTMLElement>(
      "input:not([type=range]):not([type=radio]), textarea, input:checked",
    )
    ?.focus({ preventScroll: true });
}
