// Every golden checkpoint in a page, from its folder to its ids, on WebGPU and on the CPU.
import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { root } from "../../xtask/machine.mjs";
import { open } from "./support/harness.mjs";

const goldens = path.join(root, "tests/fixtures/goldens");
const PREFIX = "/goldens/";

/** What is compared of each checkpoint; of smollm3, whose file asks for sampling, what overrides the file. */
const COMPARED = [
  "greedy",
  "greedy after a longer prompt",
  "greedy instead of the file's sampling",
  "the call overrides the file",
];

/** Those of a checkpoint's cases. */
function cases(name) {
  const lines = readFileSync(path.join(goldens, "generate", `${name}.jsonl`), "utf8").trim();
  return lines
    .split("\n")
    .map((line) => JSON.parse(line))
    .filter((example) => COMPARED.includes(example.name));
}

let site;
before(async () => {
  site = await open({
    intercept: (request, response, { pathname }) => {
      if (!pathname.startsWith(PREFIX)) return false;
      const file = path.join(goldens, "models", pathname.slice(PREFIX.length));
      if (!existsSync(file)) return false;
      const body = readFileSync(file);
      response.writeHead(200, { "Content-Length": body.length });
      response.end(request.method === "HEAD" ? undefined : body);
      return true;
    },
  });
});
after(() => site.close());

const names = readdirSync(path.join(goldens, "generate")).map((file) => path.parse(file).name);

for (const device of ["webgpu", "cpu"]) {
  test(`every checkpoint gives the ids of transformers on ${device}`, async (t) => {
    const browser = await site.page();
    for (const name of names) {
      await t.test(name, async () => {
        const examples = cases(name);
        assert.ok(examples.length > 0, "there is something to compare");
        const found = await browser.run(
          async ([source, device, examples]) => {
            const options = { device, kvCache: "f32", activations: "f32", cache: "none" };
            if (device === "webgpu") delete options.activations;
            const model = await decant.load(source, options);
            const ids = [];
            for (const { prompts, config } of examples) {
              ids.push((await model.generate(prompts, config).result).sequences);
            }
            await model.unload();
            return ids;
          },
          [`${PREFIX}${name}/`, device, examples],
        );
        assert.deepEqual(
          found,
          examples.map(({ expect }) => expect.sequences),
        );
      });
    }
    await browser.close();
  });
}
