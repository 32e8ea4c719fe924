// The real model in both of its forms: from its GGUF file, and from the Hugging Face checkpoint of the same numbers
// in shards of f32, both with the ids that transformers gives.
//
// On the CPU, where that takes seconds, and of the GGUF file a part of each answer, as `cpu.mjs` compares all of it. With
// DECANT_FULL=1 (`npm run test:web:full`) all of both, and on WebGPU, too, where a software adapter takes minutes.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { Readable } from "node:stream";
import { model } from "../../xtask/machine.mjs";
import { convert } from "./support/convert.mjs";
import { open } from "./support/harness.mjs";

const { cases } = JSON.parse(
  readFileSync(new URL("../fixtures/smollm2.json", import.meta.url), "utf8"),
);
const FULL = Boolean(process.env.DECANT_FULL);
const FOLDER = "/checkpoint/";
/** The sources, and how many ids of an answer are compared. */
const SOURCES = [
  ["/models/SmolLM2-135M-Instruct.Q4_1.gguf", FULL ? Infinity : 8],
  [FOLDER, Infinity],
];

let site;
let checkpoint;
before(async () => {
  checkpoint = convert(model());
  const { small, shards } = checkpoint;
  site = await open({
    realModel: true,
    intercept: (request, response, { pathname }) => {
      const name = pathname.startsWith(FOLDER) ? pathname.slice(FOLDER.length) : "";
      const size = small[name]?.length ?? shards[name]?.size;
      if (size === undefined) return false;
      response.writeHead(200, { "Content-Length": size, ETag: '"1"' });
      if (request.method === "HEAD") response.end();
      else if (small[name]) response.end(small[name]);
      else Readable.from(shards[name].pieces()).pipe(response);
      return true;
    },
  });
});
after(async () => {
  await site.close();
  checkpoint.close();
});

for (const device of FULL ? ["cpu", "webgpu"] : ["cpu"]) {
  test(`a GGUF file and a sharded checkpoint give the ids of transformers on ${device}`, async () => {
    assert.ok(Object.keys(checkpoint.shards).length >= 3);
    const browser = await site.page();
    const answers = [];
    for (const [source, most] of SOURCES) {
      const wanted = cases.map(({ ids, ...rest }) => ({ ...rest, ids: ids.slice(0, most) }));
      const answer = await browser.run(
        async ({ source, device, cases }) => {
          const options = { device, activations: "f32", kvCache: "f32", cache: "none" };
          const model = await decant.load(source, { contextLength: 256, ...options });
          const ids = [];
          const encoded = [];
          const last = [];
          for (const { text, prompt_ids, ids: wanted } of cases) {
            encoded.push(await model.tokenizer.encode(text));
            const config = { max_new_tokens: wanted.length };
            ids.push((await model.generate(prompt_ids, config).result).sequences[0]);
            const { data, shape } = await model.forward(prompt_ids);
            last.push(Array.from(data.slice((shape[0] - 1) * shape[1])));
          }
          const { info } = model;
          const question = [{ role: "user", content: "Why?" }];
          const chat = await model.tokenizer.apply_chat_template(question);
          await model.unload();
          return { ids, encoded, last, info, chat };
        },
        { source, device, cases: wanted },
      );
      assert.deepEqual(
        answer.ids,
        wanted.map(({ ids }) => ids),
      );
      answers.push(answer);
    }
    const [gguf, shards] = answers;
    for (const { encoded, info } of answers) {
      assert.deepEqual(
        encoded,
        cases.map(({ prompt_ids }) => prompt_ids),
      );
      assert.equal(info.device, device);
      assert.equal(info.architecture, "llama");
    }
    assert.deepEqual(shards.chat, gguf.chat);
    assert.equal(gguf.info.weight_bytes < 100e6, true);
    assert.equal(shards.info.weight_bytes > 500e6, true, "its numbers are plain");
    let furthest = 0;
    for (const [i, row] of gguf.last.entries()) {
      assert.equal(row.length, shards.last[i].length);
      for (const [id, logit] of row.entries()) {
        const off = Math.abs(logit - shards.last[i][id]);
        if (!(off <= furthest)) furthest = off;
      }
    }
    console.log(`logits differ by ${furthest} at most`);
    // The same numbers are summed in another order: the tolerance of the model's golden logits.
    assert.ok(furthest < 2e-3, `${furthest}`);
    assert.deepEqual(await browser.stray(), []);
    await browser.close();
  });
}
