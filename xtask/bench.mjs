// `npm run bench`: builds the package if its sources changed, and serves a page that measures the adapter, Decant
// and, where they are installed, its peers. With --headless, Chromium opens the page and the report is a file:
//
//   npm run bench -- [--headless] [--out FILE] [--only "Decant, WebGPU"] [--prefill 128] [--decode 32] [--runs 3]
import { writeFileSync } from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { build } from "./fresh.mjs";
import { chromium as findChromium, model, nodeModules, root, toolchain } from "./machine.mjs";
import { MODULES, ONNX_MODELS, setup } from "./peers.mjs";
import { isolate, serve } from "./serve.mjs";

const { values } = parseArgs({
  options: {
    headless: { type: "boolean", default: false },
    out: { type: "string", default: "decant-bench.json" },
    only: { type: "string", multiple: true },
    prefill: { type: "string", default: "128" },
    decode: { type: "string", default: "32" },
    runs: { type: "string", default: "3" },
  },
});
toolchain();
nodeModules();
build();
const file = model();
const known = setup(`/models/${path.basename(file)}`);
const page = path.join(root, "tests/web/bench");
const server = await serve(
  {
    "/bench/": page,
    "/package/": path.join(root, "www/dist"),
    "/shaders/": path.join(root, "shaders"),
    "/models/": path.dirname(file),
    "/modules/": MODULES,
    "/onnx/": ONNX_MODELS,
    "/": page,
  },
  { port: values.headless ? 0 : Number(process.env.PORT ?? 8081), intercept },
);
if (values.headless) await headless();
else console.log(`\nThe bench is at ${server.origin}/\n(stop it with Ctrl-C)`);

function intercept(_request, response, url) {
  // Everything is from this server.
  isolate(response, "require-corp");
  if (url.pathname !== "/setup.json") return false;
  response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(known));
  return true;
}

async function headless() {
  const { chromium } = await import("playwright-core");
  const browser = await chromium.launch({
    executablePath: findChromium(),
    args: ["--enable-unsafe-webgpu", "--no-sandbox"],
  });
  try {
    const page = await browser.newPage();
    await page.goto(server.origin);
    await page.waitForFunction(() => globalThis.ready !== undefined);
    const ready = await page.evaluate(() => ready);
    const names = values.only ?? ready;
    const absent = names.filter((name) => !ready.includes(name));
    if (absent.length > 0) throw new Error(`${absent.join("; ")}: ready are ${ready.join("; ")}`);
    const [prefill, decode, runs] = [values.prefill, values.decode, values.runs].map(Number);
    const chosen = { names, prefill, decode, runs };
    const report = await page.evaluate((chosen) => bench(chosen), chosen);
    writeFileSync(values.out, `${JSON.stringify(report, undefined, 1)}\n`);
    console.log(await page.locator("#ceilings").innerText());
    for (const { name, error, ...found } of report.runtimes) {
      const rates = `prefill ${found.prefill_tokens_per_second?.toFixed(2)}/s, decode ${found.decode_tokens_per_second?.toFixed(2)}/s`;
      console.log(`${name.padEnd(30)} ${error ?? rates}`);
    }
    for (const line of report.missing) console.log(line);
    console.log(`everything is in ${values.out}`);
  } finally {
    await browser.close();
    await server.close();
  }
}
