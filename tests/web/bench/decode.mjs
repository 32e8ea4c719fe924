// Tokens per second of the packed package in headless Chromium, through its public face.
//
//   node tests/web/bench/decode.mjs [--device webgpu|cpu|auto] [--activations q16_0|q8_0|f32] [--runs 3]
//                                   [--threads 1] [--prefill 128] [--decode 32] [--plain] [--file NAME] [--out FILE]
//
// --plain measures the module without relaxed SIMD, --file another model of the models folder.
//
// Prefill is prompt tokens over the time to the first event as the page sees it; decode is further tokens
// over the time between the first event and the last. Rates of one machine mean little: compare runs made
// side by side. The prompt is ids, so that every runtime can be given the same one.
import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { isolate } from "../../../xtask/serve.mjs";
import { open } from "../support/harness.mjs";

const { values } = parseArgs({
  options: {
    device: { type: "string", default: "webgpu" },
    activations: { type: "string" },
    threads: { type: "string", default: "1" },
    plain: { type: "boolean", default: false },
    file: { type: "string", default: "SmolLM2-135M-Instruct.Q4_1.gguf" },
    runs: { type: "string", default: "3" },
    prefill: { type: "string", default: "128" },
    decode: { type: "string", default: "32" },
    out: { type: "string" },
  },
});
const fixture = JSON.parse(
  readFileSync(new URL("../../fixtures/smollm2.json", import.meta.url), "utf8"),
);
const prompt = fixture.perf_prompt_ids_512;
const ids = Array.from({ length: Number(values.prefill) }, (_, i) => prompt[i % prompt.length]);

const site = await open({ realModel: true, intercept: isolated });
try {
  const page = await site.page({
    before: values.plain ? () => void (WebAssembly.validate = () => false) : undefined,
  });
  const info = await page.run(
    async ({ file, ...options }) => {
      const started = performance.now();
      const cache = "none";
      globalThis.model = await decant.load(`/models/${file}`, { cache, ...options });
      return { ...model.info, load_s: (performance.now() - started) / 1000 };
    },
    {
      file: values.file,
      device: values.device,
      activations: values.activations,
      threads: Number(values.threads),
      contextLength: Math.max(1024, Number(values.prefill) + Number(values.decode) + 8),
      // Only the page's own thread can be told to do without relaxed SIMD.
      worker: !values.plain,
    },
  );
  console.log(JSON.stringify(info, undefined, 1));
  const runs = [];
  for (let run = 0; run <= Number(values.runs); run += 1) {
    const figures = await page.run(
      async ({ ids, decode }) => {
        const started = performance.now();
        const at = [];
        const config = { max_new_tokens: decode + 1, eos_token_id: [] };
        const generation = model.generate(ids, config);
        for await (const _ of generation) at.push(performance.now());
        const { timings } = await generation.result;
        return {
          prefill: ids.length / ((at[0] - started) / 1000),
          decode: (at.length - 1) / ((at.at(-1) - at[0]) / 1000),
          timings,
        };
      },
      // The first id differs from run to run, so that nothing of the last prompt is still in the cache.
      { ids: [ids[run + 1], ...ids.slice(1)], decode: Number(values.decode) },
    );
    const { prefill, decode } = figures;
    const name = run === 0 ? "warm-up" : `run ${run}`;
    console.log(`${name.padEnd(8)} prefill ${prefill.toFixed(2)}/s, decode ${decode.toFixed(2)}/s`);
    if (run > 0) runs.push(figures);
  }
  if (values.out) writeFileSync(values.out, JSON.stringify({ info, runs }, undefined, 1));
} finally {
  await site.close();
}

function isolated(_request, response) {
  isolate(response);
  return false;
}
