// Hugging Face checkpoints and split GGUF files in a page: every way to name one, and what is fetched when.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { root } from "../../xtask/machine.mjs";
import { open } from "./support/harness.mjs";
import { tinyParts } from "./support/tiny.mjs";

const goldens = path.join(root, "tests/fixtures/goldens");
const NAMES = [
  "config.json",
  "generation_config.json",
  "model.safetensors",
  "tokenizer.json",
  "tokenizer_config.json",
];
const files = Object.fromEntries(
  NAMES.map((name) => [name, readFileSync(path.join(goldens, "models/llama", name))]),
);
/** Greedy cases, whose ids transformers gives. */
const cases = readFileSync(path.join(goldens, "generate/llama.jsonl"), "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line))
  .filter(({ name }) => ["greedy", "default length", "repetition_penalty"].includes(name));
const parts = tinyParts(3);

/** The files by the folder that serves them. */
const folders = {
  "/models/llama/": files,
  "/me/llama/resolve/main/": files,
  "/me/llama/resolve/v2/": files,
  "/models/shards/": sharded(3),
  "/models/promises/": { ...sharded(2), "model-1.safetensors": sharded(3)["model-1.safetensors"] },
  "/models/alien/": { ...files, "config.json": Buffer.from('{ "model_type": "alien" }') },
  "/models/empty/": { "README.md": Buffer.from("#") },
  "/models/vocabulary/": { ...files, "tokenizer.json": undefined },
  "/models/pickled/": { ...files, "model.safetensors": undefined },
  "/parts/": Object.fromEntries(parts.map((part, i) => [partName(i), part])),
};

function partName(i) {
  return `tiny-0000${i + 1}-of-00003.gguf`;
}

/** The checkpoint with its tensors dealt out to `count` files. */
function sharded(count) {
  const whole = files["model.safetensors"];
  const length = Number(whole.readBigUInt64LE());
  const header = JSON.parse(whole.subarray(8, 8 + length));
  delete header.__metadata__;
  const shards = Array.from({ length: count }, () => ({ header: {}, data: [], size: 0 }));
  const weight_map = {};
  for (const [i, [name, { dtype, shape, data_offsets }]] of Object.entries(header).entries()) {
    const shard = shards[i % count];
    const data = whole.subarray(8 + length + data_offsets[0], 8 + length + data_offsets[1]);
    shard.header[name] = { dtype, shape, data_offsets: [shard.size, shard.size + data.length] };
    shard.data.push(data);
    shard.size += data.length;
    weight_map[name] = `model-${i % count}.safetensors`;
  }
  const all = { ...files, "model.safetensors": undefined };
  for (const [i, { header, data }] of shards.entries()) {
    const json = Buffer.from(JSON.stringify(header));
    const size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(json.length));
    all[`model-${i}.safetensors`] = Buffer.concat([size, json, ...data]);
  }
  all["model.safetensors.index.json"] = Buffer.from(JSON.stringify({ weight_map }));
  return all;
}

let site;
before(async () => {
  site = await open({
    intercept: (request, response, { pathname }) => {
      const folder = Object.keys(folders).find((folder) => pathname.startsWith(folder));
      const body = folders[folder]?.[pathname.slice(folder.length)];
      if (body === undefined) return false;
      response.writeHead(200, { "Content-Length": body.length, ETag: '"1"' });
      response.end(request.method === "HEAD" ? undefined : body);
      return true;
    },
  });
});
after(() => site.close());

/** A page with helpers. */
async function visit() {
  const browser = await site.page();
  await browser.run(() => {
    globalThis.refusal = async (promise) => {
      try {
        await promise;
        return "loaded";
      } catch (error) {
        const { code, field, message } = error ?? {};
        return { code, field, message: message ?? String(error) };
      }
    };
    /** The ids of `cases` by the model at `source`, and its info. */
    globalThis.answers = async (source, cases, options) => {
      const model = await decant.load(source, { kvCache: "f32", ...options });
      const ids = [];
      for (const { prompts, config } of cases) {
        ids.push((await model.generate(prompts, config).result).sequences);
      }
      const { info } = model;
      await model.unload();
      return { ids, info };
    };
    /** A list of files of the kind that an input element has. */
    globalThis.fileList = (files) => {
      const transfer = new DataTransfer();
      for (const file of files) transfer.items.add(file);
      return transfer.files;
    };
    /** The files at these paths, as a file picker gives them. */
    globalThis.picked = (folder, names) =>
      Promise.all(
        names.map(async (name) => new File([await (await fetch(folder + name)).blob()], name)),
      );
  });
  return browser;
}

async function finish(browser) {
  assert.deepEqual(await browser.stray(), []);
  await browser.close();
}

test("however a checkpoint is named, it gives the ids of transformers", async () => {
  assert.equal(cases.length, 3);
  const expected = cases.map(({ expect }) => expect.sequences);
  const browser = await visit();
  const answers = await browser.run(
    async ({ cases, names, shards }) => {
      const options = { cache: "none", hub: location.origin };
      return {
        folder: await answers("/models/llama/", cases, options),
        url: await answers(new URL("/models/llama/?x=1", location.href), cases, options),
        hub: await answers("me/llama", cases, options),
        revision: await answers("me/llama@v2", cases, { ...options, worker: false }),
        shards: await answers("./models/shards/", cases, options),
        list: await answers(await picked("/models/llama/", names), cases, options),
        shardList: await answers(fileList(await picked("/models/shards/", shards)), cases, options),
      };
    },
    {
      cases,
      names: NAMES,
      shards: Object.keys(folders["/models/shards/"]).filter((n) => n !== "model.safetensors"),
    },
  );
  const names = {};
  for (const [way, { ids, info }] of Object.entries(answers)) {
    assert.deepEqual(ids, expected, way);
    assert.equal(info.architecture, "llama", way);
    names[way] = info.name;
  }
  assert.deepEqual(names, {
    folder: "llama",
    url: "llama",
    hub: "me/llama",
    revision: "me/llama",
    shards: "shards",
    list: "llama",
    shardList: "llama",
  });
  await finish(browser);
});

test("the parts of a GGUF file are one model, by any of them or as a list", async () => {
  const browser = await visit();
  const prompt = [{ prompts: [[65, 66, 67]], config: { max_new_tokens: 12 } }];
  const { whole, url, list } = await browser.run(
    async ({ prompt, names }) => {
      const options = { cache: "none" };
      return {
        whole: await answers("/tiny.gguf", prompt, options),
        url: await answers(`/parts/${names[1]}`, prompt, options),
        list: await answers((await picked("/parts/", names)).reverse(), prompt, options),
      };
    },
    { prompt, names: parts.map((_, i) => partName(i)) },
  );
  assert.deepEqual(url.ids, whole.ids);
  assert.deepEqual(list.ids, whole.ids);
  assert.equal(url.info.weight_bytes, whole.info.weight_bytes);
  await finish(browser);
});

test("weights are quantised while they are loaded, and the info says so", async () => {
  const browser = await visit();
  const prompt = [{ prompts: [[65, 66, 67]], config: { max_new_tokens: 3 } }];
  const { plain, q8, q4 } = await browser.run(
    async (prompt) => ({
      plain: (await answers("/tiny.gguf", prompt)).info,
      q8: (await answers("/tiny.gguf", prompt, { quantize: "q8_0" })).info,
      q4: (await answers("/tiny.gguf", prompt, { quantize: "q4_0" })).info,
    }),
    prompt,
  );
  const told = (format) =>
    `8 matrices were quantised to ${format} while loading; 3 weights stay as they are stored`;
  assert.ok(q8.notes.includes(told("Q8_0")), JSON.stringify(q8.notes));
  assert.ok(q4.notes.includes(told("Q4_0")), JSON.stringify(q4.notes));
  assert.ok(!plain.notes.some((note) => note.includes("were quantised to")));
  // 34 and 18 bytes for 32 values of 4 bytes; three vectors of 32 stay.
  const vectors = 3 * 32 * 4;
  const matrices = plain.weight_bytes - vectors;
  assert.equal(q8.weight_bytes, (matrices * 34) / 128 + vectors);
  assert.equal(q4.weight_bytes, (matrices * 18) / 128 + vectors);
  await finish(browser);
});

test("what is missing or not supported is told before anything large is fetched", async () => {
  const browser = await visit();
  const seen = () => Object.fromEntries(site.server.seen);
  const told = await browser.run(async () => {
    const load = (source) => refusal(decant.load(source, { cache: "none" }));
    const config = new File(['{ "model_type": "alien" }'], "config.json");
    return {
      alien: await load("./models/alien/"),
      empty: await load("./models/empty/"),
      vocabulary: await load("./models/vocabulary/"),
      pickled: await load("./models/pickled/"),
      promises: await load("./models/promises/"),
      list: await load([config, new File(["{}"], "tokenizer.json")]),
      file: await load(await picked("/models/llama/", ["config.json", "tokenizer_config.json"])),
    };
  });
  assert.equal(told.alien.code, "unsupported");
  assert.match(told.alien.message, /model_type "alien" is not supported; supported are .*llama/);
  assert.equal(seen()["GET /models/alien/tokenizer.json"], undefined);
  for (const [key, file] of Object.entries({
    empty: "config.json",
    vocabulary: "tokenizer.json",
    file: "tokenizer.json",
    pickled: "model.safetensors",
  })) {
    assert.equal(told[key].code, "unsupported", key);
    assert.equal(told[key].field, "source", key);
    assert.ok(told[key].message.includes(` has no ${file};`), told[key].message);
  }
  assert.equal(told.list.code, "unsupported");
  assert.match(told.list.message, /alien/);
  assert.equal(told.promises.code, "invalid_weights");
  assert.match(told.promises.message, /says that model-1\.safetensors holds this tensor/);
  await finish(browser);
});

test("a checkpoint is kept, file by file, and not fetched again", async () => {
  const browser = await visit();
  const gets = () =>
    [...site.server.seen].filter(([key]) => key.startsWith("GET /models/shards/")).length;
  const counts = () =>
    [...site.server.seen].reduce(
      (sum, [key, count]) => (key.startsWith("GET /models/shards/") ? sum + count : sum),
      0,
    );
  const load = () =>
    browser.run(async () => {
      const stages = new Set();
      const seen = [];
      const onProgress = ({ stage, loaded, total }) => {
        stages.add(stage);
        seen.push([loaded, total]);
      };
      const model = await decant.load("/models/shards/", { onProgress });
      const { warnings } = model.info;
      await model.unload();
      return { stages: [...stages], last: seen.at(-1), warnings };
    });
  const first = await load();
  assert.deepEqual(first.stages, ["download", "prepare"]);
  assert.deepEqual(first.warnings, []);
  const size = Object.entries(folders["/models/shards/"])
    .filter(([name, bytes]) => bytes !== undefined && name.endsWith(".safetensors"))
    .reduce((sum, [, bytes]) => sum + bytes.length, 0);
  assert.deepEqual(first.last, [size, size]);
  const [kinds, before] = [gets(), counts()];
  const second = await load();
  assert.deepEqual(second.stages, ["read", "prepare"]);
  assert.deepEqual(
    [kinds, counts()],
    [gets(), before + 1],
    "only the absent template is asked for",
  );
  await finish(browser);
});

test("a model that is damaged leaves nothing behind", async () => {
  const browser = await visit();
  const left = await browser.run(async () => {
    await refusal(decant.load("./models/alien/"));
    await refusal(decant.load("./models/pickled/"));
    const root = await navigator.storage.getDirectory();
    const folder = await root.getDirectoryHandle("decant");
    return Array.fromAsync(folder.keys());
  });
  assert.deepEqual(left, []);
  await finish(browser);
});
