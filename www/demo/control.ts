/** One knob on the page: bead, name, entry, provenance, warning. */

import { element, setText } from "./dom.js";
import { parse, show, type Knob } from "./knobs.js";
import type { Settings } from "./settings.js";

/** What the plan says about one knob; `null` before a model is loaded. */
export interface KnobState {
  /** The value in force. */
  value: unknown;
  /** Where it comes from, in words. */
  source: string;
  /** Its place among the steps that run, counted from 1; `undefined` when its step is not in the plan. */
  place: number | undefined;
  /** What the plan warns of, or why the package refused the value. */
  note: { text: string; refused: boolean } | undefined;
}

export interface Control {
  readonly root: HTMLElement;
  update(state: KnobState | null): void;
}

/** Builds the row of one knob and keeps it in step with the settings. */
export function control(knob: Knob, settings: Settings): Control {
  const id = `knob-${knob.key}`;
  const bead = element("span", { className: "bead", attributes: { "aria-hidden": "true" } });
  const source = element("span", { className: "source", id: `${id}-source` });
  const note = element("p", { className: "note", id: `${id}-note`, hidden: true });
  const help = element("p", { className: "help", id: `${id}-help` }, knob.help);
  const reset = element(
    "button",
    {
      type: "button",
      className: "reset",
      title: "Leave untouched",
      attributes: { "aria-label": `Leave ${knob.key} untouched` },
    },
    "×",
  );
  const entry = entryOf(knob, id, (text) => settings.set(knob.key, parse(knob, text)));
  for (const input of entry.inputs)
    input.setAttribute("aria-describedby", `${id}-help ${id}-source ${id}-note`);

  reset.addEventListener("click", () => {
    settings.set(knob.key, undefined);
    entry.inputs.at(-1)?.focus();
  });

  // A group is named by its legend and a single input by its label; both look the same.
  const name = entry.group
    ? element("span", { className: "name", id: `${id}-name` }, knob.key)
    : element("label", { className: "name", htmlFor: id }, knob.key);
  const root = element(
    "div",
    { className: "knob" },
    bead,
    element("div", { className: "knob-head" }, name, source, reset),
    entry.root,
    help,
    note,
  );
  root.dataset["key"] = knob.key;

  return {
    root,
    update(state) {
      const set = settings.get(knob.key);
      root.dataset["set"] = String(set !== undefined);
      root.dataset["active"] = String(state?.place !== undefined);
      reset.hidden = set === undefined;
      setText(bead, state?.place === undefined ? "" : String(state.place));
      setText(source, state === null ? (set === undefined ? "" : "set here") : state.source);
      note.hidden = state?.note === undefined;
      setText(note, state?.note?.text ?? "");
      note.dataset["refused"] = String(state?.note?.refused ?? false);
      for (const input of entry.inputs)
        input.setAttribute("aria-invalid", String(state?.note?.refused ?? false));
      entry.write(show(set ?? state?.value), state === null ? "" : show(state.value) || "none");
    },
  };
}

interface Entry {
  root: HTMLElement;
  inputs: HTMLElement[];
  /** Whether several inputs share one name. */
  group: boolean;
  /** Shows a value, and what holds when the entry is empty. */
  write(text: string, placeholder: string): void;
}

function entryOf(knob: Knob, id: string, changed: (text: string) => void): Entry {
  switch (knob.entry.kind) {
    case "choice":
      return choice(knob.entry.options, id, changed);
    case "number":
      return number(knob, knob.entry, id, changed);
    case "strings":
      return text(element("textarea", { id, rows: 2, spellcheck: false }), changed);
    case "ids":
      return text(
        element("input", { id, type: "text", inputMode: "numeric", autocomplete: "off" }),
        changed,
      );
  }
}

function choice(
  options: { value: boolean; label: string }[],
  id: string,
  changed: (text: string) => void,
): Entry {
  const inputs = options.map(({ value }) =>
    element("input", { type: "radio", name: id, value: String(value) }),
  );
  const root = element(
    "div",
    {
      className: "segments",
      attributes: { role: "radiogroup", "aria-labelledby": `${id}-name` },
    },
    ...inputs.map((input, i) =>
      element("label", {}, input, element("span", {}, options[i]?.label ?? "")),
    ),
  );
  root.addEventListener("change", () =>
    changed(inputs.find((input) => input.checked)?.value ?? ""),
  );
  return {
    root,
    inputs,
    group: true,
    write(value) {
      for (const input of inputs) input.checked = input.value === value;
    },
  };
}

function number(
  knob: Knob,
  entry: { step: number; slider?: { min: number; max: number } },
  id: string,
  changed: (text: string) => void,
): Entry {
  const box = element("input", {
    id,
    type: "number",
    step: "any",
    inputMode: "decimal",
    autocomplete: "off",
  });
  box.addEventListener("input", () => changed(box.validity.badInput ? "not a number" : box.value));
  // With `step="any"` the arrow keys would move by 1, too far for a probability.
  box.addEventListener("keydown", (event) => {
    const direction = event.key === "ArrowUp" ? 1 : event.key === "ArrowDown" ? -1 : 0;
    if (direction === 0 || entry.step === 1) return;
    event.preventDefault();
    box.value = String(Number((Number(box.value) + direction * entry.step).toFixed(6)));
    changed(box.value);
  });
  const plain = text(box, changed, false);
  if (entry.slider === undefined) return plain;

  const slider = element("input", {
    type: "range",
    min: String(entry.slider.min),
    max: String(entry.slider.max),
    step: String(entry.step),
    attributes: { "aria-label": `${knob.key}, slider` },
  });
  slider.addEventListener("input", () => {
    box.value = slider.value;
    changed(slider.value);
  });
  return {
    root: element("div", { className: "slide" }, slider, box),
    inputs: [slider, box],
    group: false,
    write(value, placeholder) {
      plain.write(value, placeholder);
      if (document.activeElement !== slider) slider.value = value === "" ? slider.min : value;
      slider.dataset["empty"] = String(value === "");
    },
  };
}

function text(
  input: HTMLInputElement | HTMLTextAreaElement,
  changed: (text: string) => void,
  listen = true,
): Entry {
  let latest = "";
  if (listen) input.addEventListener("input", () => changed(input.value));
  // A box that is being typed in is not rewritten; it catches up when it loses focus.
  input.addEventListener("blur", () => {
    input.value = latest;
  });
  return {
    root: input,
    inputs: [input],
    group: false,
    write(value, placeholder) {
      latest = value;
      input.placeholder = placeholder;
      if (document.activeElement !== input) input.value = value;
    },
  };
}
