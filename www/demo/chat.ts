/** The conversation: what was said, what exactly was sent, and the controls of the last answer. */

import type { GenerationConfig, Message, Model } from "decant";
import { say } from "./announce.js";
import { byId, element, setText } from "./dom.js";
import { plural } from "./format.js";
import { outcome, stream } from "./mode.js";
import type { Runner } from "./runner.js";

interface Turn {
  role: "user" | "assistant";
  content: string;
  root: HTMLElement;
}

/** The conversation on the page. History is what the turns hold; nothing else is sent. */
export class Chat {
  readonly #turns: Turn[] = [];
  readonly #list = byId("messages");
  readonly #scroller = byId("chat-view");
  readonly #message = byId<HTMLTextAreaElement>("message");
  readonly #system = byId<HTMLTextAreaElement>("system");
  readonly #runner: Runner;
  #regenerate: () => void = () => {};
  /** What was sent for the answer that is being written. */
  #answering: Message[] | null = null;

  constructor(runner: Runner) {
    this.#runner = runner;
    byId("chat-clear").addEventListener("click", () => this.clear());
    this.#drawEmpty();
  }

  /** What pressing "Regenerate" does; the page knows the model and the settings, the chat does not. */
  onRegenerate(action: () => void): void {
    this.#regenerate = action;
  }

  /** What is being answered, or else what would be sent if the draft were sent now. */
  get input(): Message[] {
    if (this.#answering !== null) return this.#answering;
    const draft = this.#message.value.trim();
    return [...this.#history(), ...(draft === "" ? [] : [{ role: "user", content: draft }])];
  }

  clear(): void {
    this.#runner.stop();
    this.#turns.length = 0;
    this.#drawEmpty();
    say("Conversation cleared");
    this.#message.focus();
  }

  /** Sends the draft. Resolves when the answer has ended. */
  async send(model: Model, config: GenerationConfig): Promise<void> {
    const draft = this.#message.value.trim();
    if (draft === "") {
      this.#message.focus();
      return;
    }
    const question = this.#add("user", draft);
    this.#message.value = "";
    this.#message.dispatchEvent(new Event("input"));
    try {
      await this.#answer(model, config);
    } catch (error) {
      // Nothing is lost: what could not be answered is back in the prompt box.
      if (this.#turns.at(-1) === question) {
        this.#drop(question);
        if (this.#message.value === "") this.#message.value = draft;
      }
      throw error;
    }
  }

  /** Throws the last answer away and asks for another. */
  async regenerate(model: Model, config: GenerationConfig): Promise<void> {
    const last = this.#turns.at(-1);
    if (last?.role !== "assistant") return;
    this.#drop(last);
    await this.#answer(model, config);
  }

  async #answer(model: Model, config: GenerationConfig): Promise<void> {
    const sent = this.#history();
    this.#answering = sent;
    for (const button of this.#list.querySelectorAll(".regenerate")) button.remove();
    const turn = this.#add("assistant", "");
    const text = turn.root.querySelector<HTMLElement>(".text");
    const foot = turn.root.querySelector<HTMLElement>(".foot");
    if (text === null || foot === null) return;
    try {
      const result = await stream(this.#runner, model, sent, config, text, (piece) => {
        turn.content += piece;
        this.#follow();
      });
      setText(foot, outcome(result));
    } catch (error) {
      if (turn.content === "") this.#drop(turn);
      else setText(foot, "ended by an error");
      throw error;
    } finally {
      this.#answering = null;
      const again = element(
        "button",
        { type: "button", className: "quiet-button regenerate" },
        "Regenerate",
      );
      again.addEventListener("click", () => this.#regenerate());
      foot.append(again, whatWasSent(sent, config));
      this.#follow();
    }
  }

  #history(): Message[] {
    const system = this.#system.value.trim();
    return [
      ...(system === "" ? [] : [{ role: "system", content: system }]),
      ...this.#turns.map(({ role, content }) => ({ role, content })),
    ];
  }

  #add(role: Turn["role"], content: string): Turn {
    if (this.#turns.length === 0) this.#list.replaceChildren();
    const root = element(
      "li",
      { className: "turn" },
      element("h2", {}, role === "user" ? "You" : "Model"),
      element("div", { className: "text", dir: "auto" }, content),
      element("div", { className: "foot" }),
    );
    root.dataset["role"] = role;
    this.#list.append(root);
    const turn = { role, content, root };
    this.#turns.push(turn);
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    return turn;
  }

  /** Takes a turn away, unless the conversation was cleared in the meantime. */
  #drop(turn: Turn): void {
    const index = this.#turns.indexOf(turn);
    if (index === -1) return;
    this.#turns.splice(index, 1);
    turn.root.remove();
    if (this.#turns.length === 0) this.#drawEmpty();
  }

  #drawEmpty(): void {
    this.#list.replaceChildren(
      element(
        "li",
        { className: "empty" },
        element("p", {}, "Nothing said yet."),
        element(
          "p",
          { className: "help" },
          "Everything happens in this page: the words you type and the answer never leave this device.",
        ),
      ),
    );
  }

  /** Keeps the newest text in view, unless the reader has scrolled up to read. */
  #follow(): void {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    if (scrollHeight - scrollTop - clientHeight < 120) this.#scroller.scrollTop = scrollHeight;
  }
}

function whatWasSent(messages: Message[], config: GenerationConfig): HTMLElement {
  return element(
    "details",
    { className: "sent" },
    element("summary", {}, `Sent: ${plural(messages.length, "message")}`),
    element(
      "dl",
      {},
      ...messages.flatMap(({ role, content }) => [
        element("dt", {}, role),
        element("dd", {}, String(content)),
      ]),
    ),
    element(
      "pre",
      { tabIndex: 0, attributes: { "aria-label": "Configuration that was sent" } },
      JSON.stringify(config, null, 1),
    ),
  );
}
