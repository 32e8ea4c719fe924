/** Plain completion: one sheet of text, continued in place. What the model wrote is tinted until it is edited. */

import type { GenerationConfig, Model } from "decant";
import { byId, element, setText } from "./dom.js";
import { outcome, stream } from "./mode.js";
import type { Runner } from "./runner.js";

/** The sheet. A textarea cannot colour a part of its text, so a layer of the same text lies behind it;
 * the layer also gives the textarea its height, so that the sheet scrolls as one page. */
export class Completion {
  readonly #sheet = byId<HTMLTextAreaElement>("sheet");
  readonly #layer = byId("sheet-layer");
  readonly #scroller = byId("completion-view");
  readonly #foot = byId("completion-foot");
  readonly #undo = byId<HTMLButtonElement>("completion-undo");
  readonly #runner: Runner;
  /** The text that was sent last; what follows it is the model's. */
  #prompt = "";
  #continued = false;

  constructor(runner: Runner) {
    this.#runner = runner;
    this.#sheet.addEventListener("input", () => this.#draw());
    this.#undo.addEventListener("click", () => {
      this.#sheet.value = this.#prompt;
      this.#continued = false;
      setText(this.#foot, "");
      this.#draw();
      this.#sheet.focus();
    });
    this.#draw();
  }

  /** What is being continued, or else the text as it would be sent now. */
  get input(): string {
    return this.#runner.running ? this.#prompt : this.#sheet.value;
  }

  /** Continues the text. Resolves when the continuation has ended. */
  async send(model: Model, config: GenerationConfig): Promise<void> {
    if (this.#sheet.value === "") {
      this.#sheet.focus();
      return;
    }
    this.#prompt = this.#sheet.value;
    this.#continued = true;
    this.#sheet.readOnly = true;
    setText(this.#foot, "");
    const tail = this.#draw();
    try {
      const result = await stream(this.#runner, model, this.#prompt, config, tail, (piece) => {
        this.#sheet.value += piece;
        this.#follow();
      });
      setText(this.#foot, outcome(result));
    } catch (error) {
      this.#continued = this.#sheet.value !== this.#prompt;
      throw error;
    } finally {
      this.#sheet.readOnly = false;
      this.#draw();
      this.#follow();
    }
  }

  /** Redraws the layer and returns the element that holds the model's part. */
  #draw(): HTMLElement {
    const text = this.#sheet.value;
    const kept = this.#continued && text.startsWith(this.#prompt);
    if (!kept) this.#continued = false;
    const tail = element("mark", {}, kept ? text.slice(this.#prompt.length) : "");
    // The last line break of a block is not drawn; the zero-width space gives it a line to be on.
    this.#layer.replaceChildren(kept ? this.#prompt : text, tail, "\u200b");
    this.#undo.hidden = !kept || this.#runner.running;
    return tail;
  }

  #follow(): void {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    if (scrollHeight - scrollTop - clientHeight < 120) this.#scroller.scrollTop = scrollHeight;
  }
}
