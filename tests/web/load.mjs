// Loading: sources, options, progress, caches that fail, networks that fail, loads that are given up.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { open } from "./support/harness.mjs";
import { tiny } from "./support/tiny.mjs";

const file = tiny();
let site;
/** What the server says about the model. */
let etag = '"one"';

before(async () => {
  site = await open({
    intercept: (request, response, { pathname }) => {
      const head = request.method === "HEAD";
      const body = { "/a/b/resolve/main/dir/c.gguf": file, "/a/b/resolve/v1/c.gguf": file };
      const bytes = pathname === "/kept.gguf" ? file : body[pathname];
      if (bytes !== undefined) {
        response.writeHead(200, { "Content-Length": bytes.length, ETag: etag });
        response.end(head ? undefined : bytes);
      } else if (pathname === "/short.gguf") {
        response.writeHead(200).end(file.subarray(0, file.length - 100));
      } else if (pathname === "/cut.gguf") {
        response.writeHead(200, { "Content-Length": file.length });
        if (head) return (response.end(), true);
        response.write(file.subarray(0, 1000));
        setTimeout(() => response.destroy(), 50);
      } else if (pathname === "/endless.gguf") {
        response.writeHead(200, { "Content-Length": file.length }).write(file.subarray(0, 1000));
      } else if (pathname === "/page.gguf") {
        response.writeHead(200, { "Content-Type": "text/html" }).end("<!doctype html>not a model");
      } else return false;
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
        const { name, code, field, message } = error ?? {};
        return { name, code, field, message: message ?? String(error) };
      }
    };
    /** Loads, generates one token, unloads; answers the model's info. */
    globalThis.works = async (source, options) => {
      const model = await decant.load(source, options);
      const { usage } = await model.generate("a", { max_new_tokens: 1 }).result;
      await model.unload();
      return usage.completion_tokens === 1 ? model.info : undefined;
    };
    globalThis.bytes = async () => (await fetch("/tiny.gguf")).blob();
  });
  return browser;
}

async function finish(browser) {
  assert.deepEqual(await browser.stray(), []);
  await browser.close();
}

test("every kind of source works", async () => {
  const browser = await visit();
  const names = await browser.run(async () => {
    const blob = await bytes();
    const hub = location.origin;
    const options = { cache: "none", hub };
    const object = URL.createObjectURL(blob);
    const infos = [
      await works("./tiny.gguf", options),
      await works("/tiny.gguf?query=1", options),
      await works(new URL("/tiny.gguf", location.href), options),
      await works(blob, options),
      await works(new File([blob], "x.gguf"), { ...options, worker: false }),
      await works(object, options),
      await works("a/b/dir/c.gguf", options),
      await works("a/b@v1/c.gguf", options),
    ];
    return infos.map((info) => info?.name);
  });
  assert.deepEqual(names, Array(8).fill("tiny"));
  await finish(browser);
});

test("what cannot be a model is refused before anything is fetched", async () => {
  const browser = await visit();
  const { refusals, requests } = await browser.run(async () => {
    let requests = 0;
    const fetch = () => {
      requests += 1;
      throw new Error("fetched");
    };
    const file = (name) => new File(["x"], name);
    const sources = {
      safetensors: "owner/repo/model.safetensors",
      index: "./model/config.json",
      pickled: "./pytorch_model.bin",
      part: "./model-00004-of-00003.gguf",
      none: [],
      numbers: [5],
      twins: [file("a"), file("a")],
      mixed: [file("a-00001-of-00002.gguf"), file("b.txt")],
      strangers: [file("a.gguf"), file("b.gguf")],
      fewer: [file("a-00001-of-00003.gguf"), file("a-00002-of-00003.gguf")],
      name: "model",
      relative: "models/x.gguf",
      revision: "models/x.gguf@v1",
      number: 5,
      nothing: undefined,
      address: "http://",
    };
    const refusals = {};
    for (const [key, source] of Object.entries(sources)) {
      const { code, field } = await refusal(decant.load(source, { fetch, cache: "none" }));
      refusals[key] = `${code} ${field}`;
    }
    return { refusals, requests };
  });
  for (const [key, found] of Object.entries(refusals)) {
    assert.equal(found, "invalid_option source", key);
  }
  assert.equal(requests, 0);
  await finish(browser);
});

test("every option is checked by name", async () => {
  const browser = await visit();
  const fields = await browser.run(async () => {
    const wrong = [
      { quantize: "q5_0" },
      { device: "gpu" },
      { contextLength: 0 },
      { contextLength: 1.5 },
      { contextLength: "96" },
      { contextLength: 1e6 },
      { kvCache: "q8_0" },
      { cache: true },
      { hub: 5 },
      { fetch: "fetch" },
      { signal: {} },
      { onProgress: true },
      { worker: "yes" },
    ];
    const told = [];
    for (const options of wrong) {
      const { code, field } = await refusal(decant.load("./tiny.gguf", options));
      told.push([Object.keys(options)[0], code, field]);
    }
    return told;
  });
  for (const [key, code, field] of fields) {
    assert.equal(code, "invalid_option", key);
    if (key !== "contextLength") assert.equal(field, key);
  }
  await finish(browser);
});

test("failures say what failed, and the next load works", async () => {
  const browser = await visit();
  const answer = await browser.run(async () => ({
    missing: await refusal(decant.load("./missing.gguf")),
    unreachable: await refusal(decant.load("http://localhost:1/x.gguf")),
    cut: await refusal(decant.load("./cut.gguf")),
    short: await refusal(decant.load("./short.gguf")),
    page: await refusal(decant.load("./page.gguf")),
    empty: await refusal(decant.load(new Blob())),
    next: (await works("./tiny.gguf")).name,
  }));
  for (const key of ["missing", "unreachable", "cut"])
    assert.equal(answer[key].code, "network", key);
  for (const key of ["short", "page", "empty"]) {
    assert.equal(answer[key].code, "invalid_weights", key);
  }
  assert.match(answer.missing.message, /missing\.gguf answered 404/);
  assert.equal(answer.next, "tiny");
  await finish(browser);
});

test("a caller's own fetch is used, in a worker too, and its errors arrive", async () => {
  const browser = await visit();
  for (const worker of [true, false]) {
    const answer = await browser.run(async (worker) => {
      const asked = [];
      const given = async (url, init) => {
        asked.push(`${init?.method ?? "GET"} ${new URL(url).pathname}`);
        return fetch("/tiny.gguf", init);
      };
      const options = { worker, cache: "none" };
      const info = await works("./else.gguf", { ...options, fetch: given });
      const fails = async () => {
        throw new TypeError("no way");
      };
      const failed = await refusal(decant.load("./else.gguf", { ...options, fetch: fails }));
      return { name: info.name, asked, failed };
    }, worker);
    assert.equal(answer.name, "tiny");
    assert.deepEqual(answer.asked, ["GET /else.gguf"]);
    assert.equal(answer.failed.code, "network");
    assert.match(answer.failed.message, /no way/);
  }
  await finish(browser);
});

test("an abort ends a load before, while waiting, and in the middle; afterwards it does nothing", async () => {
  const browser = await visit();
  for (const worker of [true, false]) {
    const answer = await browser.run(async (worker) => {
      const options = { worker, cache: "none" };
      const before = await refusal(
        decant.load("./tiny.gguf", { ...options, signal: AbortSignal.abort() }),
      );
      const during = async (source, when) => {
        const controller = new AbortController();
        const { signal } = controller;
        const onProgress = when === "progress" ? () => controller.abort("stop it") : undefined;
        const loading = refusal(decant.load(source, { ...options, signal, onProgress }));
        if (when !== "progress") setTimeout(() => controller.abort("stop it"), when);
        return (await loading).message;
      };
      const controller = new AbortController();
      const model = await decant.load("./tiny.gguf", { ...options, signal: controller.signal });
      controller.abort();
      const after = (await model.generate("a", { max_new_tokens: 1 }).result).usage
        .completion_tokens;
      await model.unload();
      return {
        before: before.name,
        at: [await during("./endless.gguf", 0), await during("./endless.gguf", 100)],
        progress: await during("./tiny.gguf", "progress"),
        after,
      };
    }, worker);
    assert.deepEqual(answer, {
      before: "AbortError",
      at: ["stop it", "stop it"],
      progress: "stop it",
      after: 1,
    });
  }
  await finish(browser);
});

test("two loads at once both work", async () => {
  const browser = await visit();
  for (const worker of [true, false]) {
    const names = await browser.run(async (worker) => {
      const loads = [1, 2].map(() => works("./tiny.gguf", { worker }));
      return (await Promise.all(loads)).map(({ name }) => name);
    }, worker);
    assert.deepEqual(names, ["tiny", "tiny"]);
  }
  await finish(browser);
});

test("a download is kept, used again, and replaced when the server has another", async () => {
  const browser = await visit();
  const gets = () => site.server.seen.get("GET /kept.gguf") ?? 0;
  const load = () =>
    browser.run(async () => {
      const stages = new Set();
      const onProgress = ({ stage }) => stages.add(stage);
      const { warnings } = await works("./kept.gguf", { onProgress });
      return { stages: [...stages], warnings };
    });
  assert.deepEqual(await load(), { stages: ["download", "prepare"], warnings: [] });
  assert.equal(gets(), 1);
  assert.deepEqual(await load(), { stages: ["read", "prepare"], warnings: [] });
  assert.equal(gets(), 1, "the second load fetched nothing");
  etag = '"two"';
  assert.deepEqual((await load()).stages, ["download", "prepare"]);
  assert.equal(gets(), 2);
  await browser.run(async () => {
    const root = await navigator.storage.getDirectory();
    await root.removeEntry("decant", { recursive: true });
  });
  assert.deepEqual((await load()).stages, ["download", "prepare"], "storage was cleared");
  await finish(browser);
});

test("a download fills memory that it is given, and works where streams bring their own", async () => {
  const browser = await visit();
  const found = await browser.run(async () => {
    const { read } = ReadableStreamBYOBReader.prototype;
    const buffers = [];
    ReadableStreamBYOBReader.prototype.read = function (view) {
      buffers.push(view.byteLength);
      return read.call(this, view);
    };
    const options = { cache: "none", worker: false, device: "cpu" };
    const given = [await works("/tiny.gguf", options), buffers.splice(0)];
    const { getReader } = ReadableStream.prototype;
    ReadableStream.prototype.getReader = function (options) {
      if (options?.mode === "byob") throw new TypeError("no bytes");
      return getReader.call(this);
    };
    const brought = [await works("/tiny.gguf", options), buffers];
    return [given, brought].map(([info, sizes]) => [info?.device, sizes]);
  });
  const [[given, sizes], brought] = found;
  assert.equal(given, "cpu");
  assert.ok(sizes.length > 1 && new Set(sizes).size === 1, `reads of ${sizes}`);
  assert.deepEqual(brought, ["cpu", []]);
  await finish(browser);
});

test("a damaged file is not kept", async () => {
  const browser = await visit();
  const left = await browser.run(async () => {
    await refusal(decant.load("./short.gguf"));
    await refusal(decant.load("./cut.gguf"));
    await refusal(decant.load("./page.gguf"));
    const root = await navigator.storage.getDirectory();
    const folder = await root.getDirectoryHandle("decant");
    return Array.fromAsync(folder.keys());
  });
  assert.deepEqual(left, []);
  await finish(browser);
});

for (const [name, fault] of Object.entries({
  "storage that cannot be opened": () => {
    navigator.storage.getDirectory = () => Promise.reject(new DOMException("no", "SecurityError"));
  },
  "no room for the first bytes": () => failing("write", 1),
  "no room for the second bytes": () => failing("write", 2),
  "no room for the description": () => failing("write", Infinity, "string"),
  "no room when the file is closed": () => failing("close", 1),
  "no room for a file at all": () => {
    FileSystemDirectoryHandle.prototype.getFileHandle = () =>
      Promise.reject(new DOMException("full", "QuotaExceededError"));
  },
})) {
  test(`the load succeeds with one warning: ${name}`, async () => {
    const browser = await visit();
    // In the page, where the test can reach what the engine's thread uses.
    const answer = await browser.run(
      async ([fault]) => {
        globalThis.failing = (method, nth, only) => {
          const { prototype } = FileSystemWritableFileStream;
          const original = prototype[method];
          let calls = 0;
          prototype[method] = function (data) {
            calls += 1;
            const hit = only === undefined ? calls === nth : typeof data === only;
            if (hit) return Promise.reject(new DOMException("full", "QuotaExceededError"));
            return original.call(this, data);
          };
        };
        const root = await navigator.storage.getDirectory();
        new Function(`return (${fault})()`)();
        // Two pieces, so that there is a second write.
        const whole = new Uint8Array(await (await bytes()).arrayBuffer());
        const split = async () =>
          new Response(
            new ReadableStream({
              start(controller) {
                controller.enqueue(whole.slice(0, 5000));
                controller.enqueue(whole.slice(5000));
                controller.close();
              },
            }),
            { headers: { "content-length": whole.length } },
          );
        const { name, warnings } = await works("./a.gguf", { worker: false, fetch: split });
        const left = [];
        const folder = await root.getDirectoryHandle("decant").catch(() => undefined);
        if (folder) for await (const key of folder.keys()) left.push(key);
        return { name, warnings, left };
      },
      [String(fault)],
    );
    assert.equal(answer.name, "tiny");
    assert.equal(answer.warnings.length, 1, JSON.stringify(answer.warnings));
    assert.match(answer.warnings[0], /kept/);
    assert.deepEqual(answer.left, []);
    await finish(browser);
  });
}
