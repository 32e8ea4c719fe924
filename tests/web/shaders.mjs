// Every kernel of the registry that the package carries, compiled by a real browser. Browsers reject WGSL
// that the native validator lets through, such as a barrier that not every invocation reaches.
import assert from "node:assert/strict";
import path from "node:path";
import { after, before, test } from "node:test";
import { root } from "../../xtask/machine.mjs";
import { open } from "./support/harness.mjs";

const BAD = `
@group(0) @binding(0) var<storage, read_write> data: array<u32>;
@compute @workgroup_size(8) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (data[id.x] == 0u) { return; }
  workgroupBarrier();
  data[id.x] = 1u;
}`;

let site;
let browser;
before(async () => {
  site = await open({ mounts: { "/bindings/": path.join(root, "www/bindings") } });
  browser = await site.page();
  await browser.run(async () => {
    const bindings = await import("/bindings/decant.js");
    await bindings.default({ module_or_path: "/package/decant.wasm" });
    globalThis.kernels = JSON.parse(bindings.probe_kernels());
    const adapter = await navigator.gpu.requestAdapter();
    // No optional feature and no limit above the default: what every adapter has.
    globalThis.device = await adapter.requestDevice();
    /** What the browser has against a kernel. */
    globalThis.complaints = async ({ source, entry, overrides }) => {
      const module = device.createShaderModule({ code: source });
      const { messages } = await module.getCompilationInfo();
      const found = messages.filter(({ type }) => type === "error").map(({ message }) => message);
      // As they are, and with every switch the other way.
      const switches = overrides.filter((name) =>
        new RegExp(`override ${name}\\s*: bool`).test(source),
      );
      const variants = [{}, ...switches.map((name) => ({ [name]: 1 }))];
      for (const constants of variants) {
        const compute = { module, entryPoint: entry, constants };
        await device
          .createComputePipelineAsync({ layout: "auto", compute })
          .catch(({ message }) => found.push(message));
      }
      return found;
    };
  });
});
after(() => site.close());

test("every kernel compiles", async () => {
  const compiled = await browser.run(async () => {
    const all = [];
    for (const kernel of kernels) all.push([kernel.name, await complaints(kernel)]);
    return all;
  });
  assert.ok(compiled.length >= 10, `only ${compiled.length} kernels`);
  assert.deepEqual(
    compiled.filter(([, found]) => found.length > 0),
    [],
  );
});

test("a kernel that a browser must reject is rejected", async () => {
  const bad = { source: BAD, entry: "main", overrides: [] };
  const found = await browser.run((bad) => complaints(bad), bad);
  assert.match(found.join(), /uniform control flow/);
});
