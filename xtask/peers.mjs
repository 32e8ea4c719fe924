// What `npm run bench` measures beside the package, where it is there. Peers are no dependencies of this project:
// they are looked for, and what is missing is named with the line that installs it.
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { root } from "./machine.mjs";

const NAME = "SmolLM2-135M-Instruct";
const NPM = "npm install --no-save @huggingface/transformers @wllama/wllama";
const ONNX = `hf download HuggingFaceTB/${NAME} --include "*.json" "onnx/model_q4.onnx" --local-dir models/onnx/${NAME}`;

/** Where peers are looked for: npm's modules, and models of transformers.js, which are no GGUF files. */
export const MODULES = path.join(root, "node_modules");
export const ONNX_MODELS = path.join(root, "models/onnx");

/**
 * What the page of the bench needs to know: the URL of the `model`, a prompt in ids and one in text, and for each
 * peer its URLs, or what is `missing`.
 */
export function setup(model, { modules = MODULES, onnx = ONNX_MODELS } = {}) {
  const fixture = path.join(root, "tests/fixtures/smollm2.json");
  const { perf_prompt_ids_512: ids } = JSON.parse(readFileSync(fixture, "utf8"));
  return {
    model,
    ids,
    text: "The decanter stood on the table, and nobody at the long dinner had yet asked what it was for. ",
    transformers: {
      missing: missing(
        "transformers.js",
        [path.join(modules, "@huggingface/transformers/dist/transformers.min.js"), NPM],
        [path.join(onnx, NAME, "onnx/model_q4.onnx"), ONNX],
      ),
      module: "/modules/@huggingface/transformers/dist/transformers.min.js",
      wasm: "/modules/onnxruntime-web/dist/",
      models: "/onnx/",
      name: NAME,
    },
    wllama: {
      missing: missing("wllama", [path.join(modules, "@wllama/wllama/esm/index.min.js"), NPM]),
      module: "/modules/@wllama/wllama/esm/index.min.js",
      wasm: "/modules/@wllama/wllama/esm/wasm/wllama.wasm",
    },
  };
}

/** What is missing of `needed`, pairs of a file and the line that brings it; undefined if nothing is. */
function missing(name, ...needed) {
  const lines = needed.filter(([file]) => !existsSync(file)).map(([, line]) => line);
  return lines.length === 0 ? undefined : [`${name} is not here: ${lines.join(" && ")}`];
}
