// The page of `npm run bench`: measures what was chosen, one after another, and shows it.
import { ceilings } from "./ceilings.js";
import { runners } from "./runners.js";

const at = (id) => document.getElementById(id);
const form = document.querySelector("form");
const setup = await (await fetch("/setup.json")).json();
const available = runners(setup);

for (const { name, missing } of available) {
  const label = document.createElement("label");
  const box = document.createElement("input");
  Object.assign(box, { type: "checkbox", name: "runner", value: name });
  box.checked = missing === undefined;
  box.disabled = missing !== undefined;
  label.append(box, ` ${name} `);
  at("choices").append(label);
}
const missing = new Set(available.flatMap(({ missing }) => missing ?? []));
at("missing").innerText = [...missing].join("\n");

/** Measures the runners called `names`; answers everything, as it is downloaded. */
globalThis.bench = async ({ names, prefill, decode, runs }) => {
  const report = {
    browser: navigator.userAgent,
    model: setup.model,
    prompt_tokens: prefill,
    new_tokens: decode,
    missing: [...missing],
    ceilings: await noted("the adapter's ceilings", ceilings),
    runtimes: [],
  };
  at("ceilings").textContent = inWords(report.ceilings);
  for (const runner of available.filter(({ name }) => names.includes(name))) {
    const { name } = runner;
    const found = await noted(name, () => measure(runner, { prefill, decode, runs }));
    report.runtimes.push({ name, ...found });
    show(name, found);
  }
  const text = JSON.stringify(report, undefined, 1);
  const link = at("download");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.hidden = false;
  at("status").textContent = "Done.";
  return report;
};

/** Runs `work` and says so; a failure becomes part of the report, so that the others still run. */
async function noted(name, work) {
  at("status").textContent = `Measuring ${name} …`;
  try {
    return await work();
  } catch (error) {
    return { error: String(error) };
  }
}

/** One runtime: loads it, warms up, and keeps the best of each figure. */
async function measure(runner, { prefill, decode, runs }) {
  const started = performance.now();
  const loaded = await runner.load();
  const load_s = (performance.now() - started) / 1000;
  try {
    const all = [];
    for (let run = 0; run <= runs; run += 1) {
      // The first id differs from run to run, so that nothing of the last prompt is in a cache.
      const ids = Array.from(
        { length: prefill },
        (_, i) => setup.ids[(i + run) % setup.ids.length],
      );
      const figures = await loaded.run(ids, decode);
      if (run > 0) all.push(figures);
    }
    const best = (name) => Math.max(...all.map((figures) => figures[name]));
    return {
      load_s,
      prefill_tokens_per_second: best("prefill"),
      decode_tokens_per_second: best("decode"),
      time_to_first_token_ms: Math.min(...all.map((figures) => figures.first_ms)),
      runs: all,
      ...(await loaded.details?.()),
    };
  } finally {
    await loaded.close();
  }
}

function show(name, found) {
  const cells = found.error
    ? [name, found.error]
    : [
        name,
        found.load_s.toFixed(1),
        found.prefill_tokens_per_second.toFixed(2),
        found.decode_tokens_per_second.toFixed(2),
        found.time_to_first_token_ms.toFixed(0),
      ];
  const row = at("rows").insertRow();
  for (const cell of cells) row.insertCell().textContent = cell;
  if (found.error) row.cells[1].colSpan = 4;
}

function inWords(found) {
  if (found.error) return found.error;
  const giga = (rate) => (rate / 1e9).toFixed(2);
  return (
    `${found.adapter}: ${giga(found.read_bytes_per_second)} GB/s read, ` +
    `${giga(found.multiply_adds_per_second)} G multiply-adds/s, ` +
    `${(found.dispatch_seconds * 1e6).toFixed(1)} µs a dispatch, ` +
    `${(found.round_trip_seconds * 1e3).toFixed(2)} ms a round trip`
  );
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  const data = new FormData(form);
  const number = (name) => Number(data.get(name));
  await bench({
    names: data.getAll("runner"),
    prefill: number("prefill"),
    decode: number("decode"),
    runs: number("runs"),
  });
  button.disabled = false;
});
globalThis.ready = available.filter(({ missing }) => !missing).map(({ name }) => name);
