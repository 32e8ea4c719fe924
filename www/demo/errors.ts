/** Errors in words: what happened, the typed code, and what the user can do about it. */

import { DecantError, type ErrorCode } from "decant";
import { byId, element, setText } from "./dom.js";

const ADVICE: Record<ErrorCode, string> = {
  invalid_option: "Change the setting in the pipeline.",
  invalid_input: "Change the prompt.",
  invalid_weights: "The file is damaged or not what it claims to be; get it again.",
  invalid_tokenizer: "The file's vocabulary cannot be used; try another file.",
  invalid_template: "The file's chat template refused these messages; completion still works.",
  unsupported: "This file, option or browser is not supported by this version.",
  out_of_memory: "Choose a shorter context or a smaller model.",
  device_lost: "Load the model again.",
  context_full: "Clear the conversation, shorten the prompt, or load with a longer context.",
  invalid_scores: "No token could be chosen; loosen the settings.",
  network: "Check the address and the connection.",
  closed: "Load the model again.",
  internal: "This is a defect of the package; please report it.",
};

/** An error as the page shows it. `code` is missing for errors that are not the package's own. */
export function failure(error: unknown): {
  code: ErrorCode | undefined;
  text: string;
  advice: string | undefined;
} {
  const text = error instanceof Error ? error.message : String(error);
  const code = error instanceof DecantError ? error.code : undefined;
  return { code, text: capitalised(text), advice: code && ADVICE[code] };
}

/** Whether the user cancelled it, which is no failure. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** Shows an error above the prompt until it is dismissed or the next action succeeds. */
export function showError(error: unknown): void {
  const { code, text, advice } = failure(error);
  const box = byId("error-text");
  box.replaceChildren(
    ...(code === undefined ? [] : [element("code", {}, code), " "]),
    `${text}${/[.!?]$/.test(text) ? "" : "."}`,
    ...(advice === undefined ? [] : [` ${advice}`]),
  );
  byId("error").hidden = false;
}

/** Takes the last error away. */
export function clearError(): void {
  byId("error").hidden = true;
  setText(byId("error-text"), "");
}

function capitalised(text: string): string {
  // A message that begins with an option's name keeps its spelling.
  return /^[a-z]+[_:]/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1);
}
