/** The first stage of the pipeline: the prompt as the model will read it, counted in tokens. */

import type { Message, Model } from "decant";
import { byId, setText } from "./dom.js";
import { failure } from "./errors.js";
import { plural } from "./format.js";

/** Milliseconds of quiet before a prompt that is being typed is counted. */
const QUIET = 250;

/** Redraws the stage a moment after the last call. `current` gives the messages or the text of now. */
export class PromptStage {
  #timer = 0;
  #asked = 0;

  constructor(readonly current: () => { model: Model | null; input: string | Message[] }) {
    byId("prompt-preview").addEventListener("toggle", () => this.schedule());
  }

  schedule(): void {
    window.clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => void this.#draw(), QUIET);
  }

  async #draw(): Promise<void> {
    const { model, input } = this.current();
    const turn = ++this.#asked;
    const [summary, text] = await describe(model, input);
    if (turn !== this.#asked) return;
    setText(byId("prompt-summary"), summary);
    setText(byId("glance-prompt"), summary.replace(/^.*, /, "") || "–");
    setText(byId("prompt-text"), text);
  }
}

async function describe(
  model: Model | null,
  input: string | Message[],
): Promise<[summary: string, text: string]> {
  if (model === null) return ["", "Load a model to see its chat template applied."];
  if (input.length === 0) return ["empty", "Nothing to send yet."];
  try {
    const chat = typeof input !== "string";
    const text = chat
      ? await model.tokenizer.apply_chat_template(input, { add_generation_prompt: true })
      : input;
    // A chat template writes the special tokens itself.
    const ids = await model.tokenizer.encode(text, { add_special_tokens: !chat });
    const messages = chat ? `${plural(input.length, "message")}, ` : "";
    return [`${messages}${plural(ids.length, "token")}`, text];
  } catch (error) {
    return ["cannot be written", failure(error).text];
  }
}
