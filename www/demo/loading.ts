/** Loading a model: where from, with which options, and honest progress in bytes. */

import { load, type LoadOptions, type LoadProgress, type LoadStage, type Model } from "decant";
import { say } from "./announce.js";
import { byId, setText } from "./dom.js";
import { clearError, isAbort, showError } from "./errors.js";
import { bytes } from "./format.js";

/** The model that `npm run demo` serves beside the page. */
const SERVED = "/models/SmolLM2-135M-Instruct.Q4_1.gguf";

const STAGES: Record<LoadStage, string> = {
  download: "Downloading:",
  read: "Reading from this device:",
  prepare: "Preparing the kernels for",
};

/** Wires the form. `loaded` gets each model that is ready; `before` is called when a load begins,
 * so that the former model can be unloaded before memory for a second one is needed. */
export function initLoading(before: () => Promise<void>, loaded: (model: Model) => void): void {
  const form = byId<HTMLFormElement>("load-form");
  let cancel: AbortController | null = null;

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const source = chosenSource(form);
    if (source === null) return;
    cancel = new AbortController();
    clearError();
    busy(true);
    const meter = new Meter();
    try {
      await before();
      const model = await load(source, {
        ...chosenOptions(form),
        signal: cancel.signal,
        onProgress: (p) => meter.show(p),
      });
      say(`Model loaded: ${model.info.name}`);
      loaded(model);
    } catch (error) {
      if (isAbort(error)) say("Loading cancelled");
      else showError(error);
    } finally {
      cancel = null;
      busy(false);
    }
  });

  byId("load-cancel").addEventListener("click", () => cancel?.abort());
  // Writing an address or choosing a file also chooses that source.
  for (const [field, source] of [
    ["load-url", "url"],
    ["load-file", "file"],
  ] as const) {
    byId(field).addEventListener("input", () => {
      (form.elements.namedItem("source") as RadioNodeList).value = source;
    });
  }
}

function chosenSource(form: HTMLFormElement): string | File | null {
  const field = byId<HTMLInputElement>;
  switch ((form.elements.namedItem("source") as RadioNodeList).value) {
    case "url": {
      const url = field("load-url").value.trim();
      if (url === "") field("load-url").focus();
      return url || null;
    }
    case "file": {
      const file = field("load-file").files?.[0];
      if (file === undefined) field("load-file").click();
      return file ?? null;
    }
    default:
      return new URL(SERVED, document.baseURI).href;
  }
}

/** Only what was chosen; an option left at "default" is not sent. */
function chosenOptions(form: HTMLFormElement): LoadOptions {
  const data = new FormData(form);
  const options: LoadOptions = {};
  const device = data.get("device"),
    kvCache = data.get("kvCache"),
    contextLength = data.get("contextLength");
  if (device) options.device = device as NonNullable<LoadOptions["device"]>;
  if (kvCache) options.kvCache = kvCache as NonNullable<LoadOptions["kvCache"]>;
  if (contextLength) options.contextLength = Number(contextLength);
  return options;
}

function busy(loading: boolean): void {
  byId<HTMLFieldSetElement>("load-fields").disabled = loading;
  byId("load-submit").hidden = loading;
  byId("load-progress").hidden = !loading;
  document.body.dataset["loading"] = String(loading);
  byId(loading ? "load-cancel" : "load-submit").focus({ preventScroll: true });
}

/** Bytes that have arrived, bytes there are, and the speed of the last seconds. */
class Meter {
  #marks: { time: number; loaded: number }[] = [];
  #said = 0;

  constructor() {
    this.#draw("Asking for the file…", 0, null);
  }

  show({ stage, loaded, total }: LoadProgress): void {
    const now = performance.now();
    this.#marks.push({ time: now, loaded });
    while (this.#marks.length > 2 && now - (this.#marks[0]?.time ?? now) > 3000)
      this.#marks.shift();
    const first = this.#marks[0];
    const seconds = first === undefined ? 0 : (now - first.time) / 1000;
    const speed =
      first !== undefined && seconds > 0.25
        ? ` · ${bytes(Math.round((loaded - first.loaded) / seconds))}/s`
        : "";
    const of = total === null ? "" : ` of ${bytes(total)}`;
    this.#draw(
      `${STAGES[stage]} ${bytes(loaded)}${of}${stage === "prepare" ? "" : speed}`,
      loaded,
      total,
    );
  }

  #draw(words: string, loaded: number, total: number | null): void {
    const bar = byId<HTMLProgressElement>("load-bar");
    // A size the server did not give is shown as unknown, not as a guess.
    if (total === null || total === 0) bar.removeAttribute("value");
    else {
      bar.max = total;
      bar.value = loaded;
      const quarter = Math.floor((4 * loaded) / total);
      if (quarter > this.#said) say(`${25 * quarter} percent loaded`);
      this.#said = Math.max(this.#said, quarter);
    }
    setText(byId("load-words"), words);
  }
}
