/**
 * The page: connects loading, the two modes, the pipeline and the strip. Everything it knows about
 * generation it asks the package through its public face.
 */

import type { Model } from "decant";
import { Chat } from "./chat.js";
import { Completion } from "./completion.js";
import { byId, element, setText } from "./dom.js";
import { clearError, isAbort, showError } from "./errors.js";
import { bytes, count } from "./format.js";
import { drawGlance } from "./glance.js";
import { initLoading } from "./loading.js";
import { NextToken } from "./next-token.js";
import { initPanel, revealKnob } from "./panel.js";
import { Pipeline } from "./pipeline.js";
import { PromptStage } from "./prompt.js";
import { Runner } from "./runner.js";
import { PRESETS, Settings } from "./settings.js";
import { Strip } from "./strip.js";
import { initTheme } from "./theme.js";

const settings = new Settings(PRESETS.first);
const runner = new Runner();
const pipeline = new Pipeline(settings);
const strip = new Strip(runner);
const chat = new Chat(runner);
const completion = new Completion(runner);
let model: Model | null = null;

const message = byId<HTMLTextAreaElement>("message");
const sheet = byId<HTMLTextAreaElement>("sheet");
const input = () => (mode() === "chat" ? chat.input : completion.input);
const prompt = new PromptStage(() => ({ model, input: input() }));
const nextToken = new NextToken(() => ({
  model,
  input: input(),
  explained: pipeline.explained,
  busy: runner.running,
}));

function mode(): "chat" | "completion" {
  return byId<HTMLInputElement>("mode-chat").checked ? "chat" : "completion";
}

/** Runs one action of the model and shows what went wrong, if anything did. */
async function act(action: (model: Model) => Promise<void>): Promise<void> {
  if (model === null || runner.running) return;
  clearError();
  try {
    await action(model);
  } catch (error) {
    if (!isAbort(error)) showError(error);
  }
}

function send(): void {
  if (model === null) showView("load");
  else void act((model) => (mode() === "chat" ? chat : completion).send(model, settings.config()));
}

/** Shows the loading form, or the mode that is chosen. */
function showView(view: "load" | "talk", takeFocus = true): void {
  document.body.dataset["view"] = view;
  document.body.dataset["mode"] = mode();
  byId("load-view").hidden = view !== "load";
  byId("chat-view").hidden = view === "load" || mode() !== "chat";
  byId("completion-view").hidden = view === "load" || mode() !== "completion";
  byId("composer").hidden = view === "load";
  byId("load-back").hidden = model === null;
  setText(byId("send"), mode() === "chat" ? "Send" : "Continue");
  const target = view === "load" ? byId("load-submit") : mode() === "chat" ? message : sheet;
  if (takeFocus) target.focus({ preventScroll: true });
  prompt.schedule();
}

function setModel(next: Model | null): void {
  model = next;
  pipeline.setModel(next);
  strip.setModel(next);
  const info = next?.info;
  setText(byId("model-name"), info?.name ?? "No model");
  setText(
    byId("model-facts"),
    info === undefined ? "" : `${bytes(info.weight_bytes)} on ${info.device}${threads(info)}`,
  );
  setText(byId("forward-summary"), info === undefined ? "" : `${info.device}${threads(info)}`);
  setText(
    byId("forward-facts"),
    info === undefined
      ? "Load a model to see what runs it."
      : `${info.architecture}, ${count(info.parameters)} parameters in ${bytes(info.weight_bytes)}, on ${info.adapter}` +
          `${info.device === "webgpu" && info.software ? " (a program on the CPU, so slow)" : ""}, because ${info.reason}. Cache: ${info.kv_cache}, ${count(info.context_length)} positions, ${bytes(info.cache_bytes)}.`,
  );
  byId("forward-warnings").replaceChildren(
    ...(info?.warnings ?? []).map((text) => element("li", { className: "note" }, text)),
  );
  byId("forward-notes").replaceChildren(
    ...(info?.notes ?? []).map((text) => element("li", {}, text)),
  );
  byId("forward-why").hidden = !info?.notes.length;
}

/** The threads where there are some, after the device. */
function threads({ threads }: Model["info"]): string {
  if (threads === null) return "";
  return threads === 1 ? ", 1 thread" : `, ${threads} threads`;
}

initTheme();
initPanel();
initLoading(
  async () => {
    runner.stop();
    const former = model;
    setModel(null);
    await former?.unload();
  },
  (loaded) => {
    setModel(loaded);
    showView("talk");
  },
);

pipeline.addEventListener("change", () => {
  drawGlance(pipeline.explained, revealKnob);
  void nextToken.refresh();
});
drawGlance(null, revealKnob);
chat.onRegenerate(() => void act((model) => chat.regenerate(model, settings.config())));

runner.addEventListener("start", () => {
  document.body.dataset["running"] = "true";
  byId("send").hidden = true;
  byId("stop").hidden = false;
  prompt.schedule();
  void nextToken.refresh();
});
let notch = 0;
runner.addEventListener("text", () => {
  notch = (notch + 1) % 4;
  byId("panel").style.setProperty("--notch", String(notch));
});
runner.addEventListener("end", () => {
  document.body.dataset["running"] = "false";
  // The buttons swap places; whoever pressed one keeps the keyboard on the other.
  const held = document.activeElement === byId("stop");
  byId("send").hidden = false;
  byId("stop").hidden = true;
  if (held) byId("send").focus();
  prompt.schedule();
  void nextToken.refresh();
});

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
byId("stop").addEventListener("click", () => runner.stop());
byId("model-chip").addEventListener("click", () => showView("load"));
byId("load-back").addEventListener("click", () => showView("talk"));
byId("error-close").addEventListener("click", () => {
  clearError();
  (mode() === "chat" ? message : sheet).focus();
});
for (const input of document.querySelectorAll("#modes input")) {
  // Whoever walks through the modes by keyboard stays on them.
  input.addEventListener("change", () => showView(model === null ? "load" : "talk", false));
}
for (const box of [message, sheet]) {
  box.addEventListener("input", () => prompt.schedule());
  box.addEventListener("keydown", (event) => {
    // Enter that ends the composition of a character belongs to the input method.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
}
byId("system").addEventListener("input", () => prompt.schedule());
document.addEventListener("keydown", (event) => {
  if (
    event.key === "Escape" &&
    runner.running &&
    !byId<HTMLDialogElement>("panel").matches(":modal")
  )
    runner.stop();
});

showView("load");
