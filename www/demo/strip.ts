/** The strip of instruments: what `stats` measures, redrawn while the model runs. */

import type { Model, Stats } from "decant";
import { byId, element, setText } from "./dom.js";
import { bytes, duration, megabytes, percent, plural, rate } from "./format.js";
import type { Runner } from "./runner.js";

/** Milliseconds between two readings while text is generated. */
const INTERVAL = 500;

/** Keeps the strip up to date for the loaded model. */
export class Strip {
  #model: Model | null = null;
  #timer = 0;

  constructor(runner: Runner) {
    runner.addEventListener("start", () => {
      this.#timer = window.setInterval(() => void this.refresh(), INTERVAL);
    });
    runner.addEventListener("end", () => {
      window.clearInterval(this.#timer);
      void this.refresh();
    });
    draw(null);
  }

  setModel(model: Model | null): void {
    this.#model = model;
    void this.refresh();
  }

  async refresh(): Promise<void> {
    const model = this.#model;
    const stats = model === null ? null : await model.stats().catch(() => null);
    // An answer that arrives after the model was changed says nothing about the new one.
    if (model === this.#model) draw(stats);
  }
}

function draw(stats: Stats | null): void {
  setText(byId("stat-prefill"), rate(stats?.prefill_tokens_per_second));
  setText(byId("stat-decode"), rate(stats?.decode_tokens_per_second));
  setText(byId("stat-first"), duration(stats?.time_to_first_token_ms));
  // What the last answer left behind is free for any other, and yet not empty.
  const held = stats === null ? 0 : stats.cache_bytes_used + stats.cache_bytes_retained;
  setText(byId("stat-cache"), stats === null ? "–" : megabytes(held));
  setText(byId("stat-cache-of"), stats === null ? "" : `/ ${bytes(stats.cache_bytes_reserved)}`);
  byId("stat-cache-level").style.width = share(stats?.cache_bytes_used, stats);
  byId("stat-cache-kept").style.width = share(stats?.cache_bytes_retained, stats);
  setText(byId("stat-truncated"), percent(stats?.truncation_rate));
  drawStops(stats?.stop_reasons ?? {});
}

/** The distribution of stop reasons, as a bar for the eye and as words for everyone. */
function drawStops(reasons: Record<string, number>): void {
  const entries = Object.entries(reasons)
    .filter(([, times]) => times > 0)
    .sort(([, a], [, b]) => b - a);
  const total = entries.reduce((sum, [, times]) => sum + times, 0);
  setText(byId("stat-runs"), total === 0 ? "" : `of ${plural(total, "run")}`);
  byId("stat-stops").replaceChildren(
    ...(total === 0
      ? [element("span", { className: "none" }, "–")]
      : entries.map(([reason, times]) =>
          element("span", { className: "stop" }, element("b", {}, String(times)), ` ${reason}`),
        )),
  );
  byId("stat-stops-bar").replaceChildren(
    ...entries.map(([reason, times]) => {
      const part = element("i");
      part.style.flexGrow = String(times);
      part.dataset["reason"] = reason;
      return part;
    }),
  );
}

/** A part of the cache as a width. */
function share(part: number | undefined, stats: Stats | null): string {
  const whole = stats?.cache_bytes_reserved;
  return part === undefined || !whole ? "0" : `${100 * Math.min(1, part / whole)}%`;
}
