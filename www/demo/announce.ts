/** Speaking to screen readers: whole sentences at a calm pace instead of every token. */

import { byId } from "./dom.js";

/** The shortest time between two announcements, in milliseconds; a polite reader needs that to finish one. */
const PACE = 2500;

/** Says one thing now: a state, a result, an error. */
export function say(text: string): void {
  byId("status").textContent = text;
}

/** Collects streamed text and says it sentence by sentence. */
export class Reader {
  #pending = "";
  #last = 0;

  push(text: string): void {
    this.#pending += text;
    const now = performance.now();
    if (now - this.#last < PACE) return;
    const end = sentenceEnd(this.#pending);
    if (end === 0) return;
    say(this.#pending.slice(0, end));
    this.#pending = this.#pending.slice(end);
    this.#last = now;
  }

  /** Says the rest, and how it ended. */
  finish(outcome: string): void {
    say(`${this.#pending} ${outcome}`.trim());
    this.#pending = "";
  }
}

/** The length of the part of `text` that consists of whole sentences. */
function sentenceEnd(text: string): number {
  let end = 0;
  for (const match of text.matchAll(/[.!?:…]["')\]]?(?=\s)|\n+/g))
    end = match.index + match[0].length;
  return end;
}
