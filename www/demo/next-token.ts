/**
 * The next token before and after the processors: the model's own distribution, and what each stage of the
 * plan made of it. The scores are asked for once; from then on every turn of a knob is drawn at once.
 */

import {
  applyProcessors,
  type GenerationConfig,
  type Message,
  type Model,
  type ProcessorStep,
} from "decant";
import { byId, element, setText } from "./dom.js";
import { failure } from "./errors.js";
import { count, plural } from "./format.js";
import { show } from "./knobs.js";
import type { Explained } from "./plan.js";

/** Rows of the table: the best tokens before, and those that only the processors made good. */
const BEFORE = 10;
const AFTER = 5;

/** What the page knows when it is asked to look. */
export interface Now {
  model: Model | null;
  input: string | Message[];
  explained: Explained | null;
  /** Whether the model is busy with an answer. */
  busy: boolean;
}

/** The model's scores after some prompt. */
interface Seen {
  model: Model;
  ids: number[];
  logits: Float32Array;
}

/** Draws the view. */
export class NextToken {
  readonly #now: () => Now;
  readonly #look = byId<HTMLButtonElement>("next-token-look");
  #seen: Seen | null = null;
  #turn = 0;
  /** Whether the scores are on their way. */
  #asking = false;

  constructor(now: () => Now) {
    this.#now = now;
    this.#look.addEventListener("click", () => void this.#ask());
  }

  /** Draws again what was seen, by the plan of now. A model that is gone takes its scores along. */
  async refresh(): Promise<void> {
    const turn = ++this.#turn;
    const { model, explained, busy } = this.#now();
    this.#look.disabled = model === null || busy || this.#asking;
    if (this.#seen !== null && this.#seen.model !== model) this.#clear("");
    const seen = this.#seen;
    if (seen === null || explained === null) return;
    try {
      if ("error" in explained) throw explained.error;
      const config = configOf(explained.plan.values);
      const { steps } = await applyProcessors(seen.logits, seen.ids, config);
      const table = await rows(seen, steps);
      if (turn !== this.#turn) return;
      this.#draw(seen, steps, table);
    } catch (error) {
      // What is drawn belongs to other settings. The scores stay, for when these are mended.
      if (turn === this.#turn) this.#hide(failure(error).text);
    }
  }

  /** Asks the model for the scores after the prompt of now. */
  async #ask(): Promise<void> {
    const { model, input } = this.#now();
    if (model === null || this.#asking) return;
    if (input.length === 0) return this.#clear("There is no prompt yet.");
    this.#asking = true;
    this.#look.disabled = true;
    setText(byId("next-token-words"), "Reading the prompt…");
    try {
      let ids: number[] = [];
      const note = (input_ids: Uint32Array) => void (ids = [...input_ids]);
      const config = {
        do_sample: false,
        num_beams: 1,
        num_return_sequences: 1,
        max_new_tokens: 1,
        output_logits: true,
      };
      const { logits } = await model.generate(input, config, { logits_processor: [note] }).result;
      this.#seen = { model, ids, logits: logits![0]![0]! };
    } catch (error) {
      this.#clear(failure(error).text);
    }
    this.#asking = false;
    await this.refresh();
  }

  #clear(words: string): void {
    this.#seen = null;
    this.#hide(words);
  }

  #hide(words: string): void {
    byId("next-token-result").hidden = true;
    setText(byId("next-token-words"), words);
  }

  #draw(seen: Seen, steps: ProcessorStep[], table: Row[]): void {
    byId("next-token-result").hidden = false;
    const left = steps.at(-1)?.kept ?? seen.logits.length;
    setText(
      byId("next-token-words"),
      `After ${plural(seen.ids.length, "token")}: ${count(left)} of ${count(seen.logits.length)} tokens can come next.`,
    );
    const stages = steps.map((step, index) =>
      stageItem(step, steps[index - 1]?.scores ?? seen.logits),
    );
    const none = element("li", {}, "No processor runs: both columns are the same.");
    byId("next-token-stages").replaceChildren(...(stages.length === 0 ? [none] : stages));
    byId("next-token-rows").replaceChildren(...table.map(rowElement));
  }
}

/** One token of the table. */
interface Row {
  text: string;
  id: number;
  before: number;
  /** Its probability afterwards, or the stage that removed it. */
  after: number | string;
}

/** The tokens worth a row, the most probable before first. */
async function rows({ model, logits }: Seen, steps: ProcessorStep[]): Promise<Row[]> {
  const before = probabilities(logits);
  const last = steps.at(-1)?.scores ?? logits;
  const after = probabilities(last);
  const shown = [...new Set([...best(before, BEFORE), ...best(after, AFTER)])];
  shown.sort((a, b) => before[b]! - before[a]!);
  const remover = (id: number) => steps.find(({ scores }) => scores[id] === -Infinity)?.name;
  return Promise.all(
    shown.map(async (id) => ({
      text: await model.tokenizer.decode([id]),
      id,
      before: before[id]!,
      after: remover(id) ?? after[id]!,
    })),
  );
}

/** The effective options as a config: what is null is not set. */
function configOf(values: Record<string, { value: unknown }>): GenerationConfig {
  const given = Object.entries(values).map(([name, { value }]) => [name, value] as const);
  return Object.fromEntries(given.filter(([, value]) => value !== null));
}

function stageItem({ name, args, kept, scores }: ProcessorStep, former: Float32Array): HTMLElement {
  const share = probabilities(former);
  let [removed, mass, changed] = [0, 0, 0];
  scores.forEach((score, id) => {
    if (score === former[id]) return;
    if (score !== -Infinity) changed += 1;
    else {
      removed += 1;
      mass += share[id]!;
    }
  });
  const done = [
    ...(removed > 0 ? [`removes ${plural(removed, "token")} that had ${percentage(mass)}`] : []),
    ...(changed > 0 ? [`changes ${plural(changed, "score")}`] : []),
  ];
  const value = show(Object.values(args)[0]).slice(0, 40);
  return element(
    "li",
    {},
    element("code", {}, `${name} ${value}`.trim()),
    ` ${done.join(", ") || "changes nothing here"}; ${count(kept)} left`,
  );
}

function rowElement({ text, id, before, after }: Row): HTMLElement {
  const cell = (value: number) =>
    element("td", {}, bar(value), element("span", {}, percentage(value)));
  const name = element("th", { scope: "row", title: `token ${id}` }, visible(text) || `#${id}`);
  const gone = () => element("td", { className: "removed" }, `removed by ${after}`);
  return element("tr", {}, name, cell(before), typeof after === "string" ? gone() : cell(after));
}

function bar(share: number): HTMLElement {
  const made = element("i", { attributes: { "aria-hidden": "true" } });
  made.style.setProperty("--share", share.toFixed(4));
  return made;
}

/** Text whose blanks can be seen. */
function visible(text: string): string {
  return text.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥");
}

function percentage(share: number): string {
  const percent = share * 100;
  if (percent > 0 && percent < 0.1) return "< 0.1 %";
  return `${percent.toFixed(percent < 10 ? 1 : 0)} %`;
}

function probabilities(scores: Float32Array): Float64Array {
  let greatest = -Infinity;
  for (const score of scores) greatest = Math.max(greatest, score);
  const shares = Float64Array.from(scores, (score) => Math.exp(score - greatest));
  const total = shares.reduce((sum, share) => sum + share, 0);
  return shares.map((share) => share / total);
}

/** The ids of the `most` greatest shares above 0, the greatest first. */
function best(shares: Float64Array, most: number): number[] {
  const found: number[] = [];
  shares.forEach((share, id) => {
    if (share === 0 || (found.length === most && share <= shares[found.at(-1)!]!)) return;
    const at = found.findIndex((other) => shares[other]! < share);
    found.splice(at < 0 ? found.length : at, 0, id);
    found.length = Math.min(found.length, most);
  });
  return found;
}
