// The demo page as a person uses it: loaded, typed into, watched, stopped, at desk and phone width.
// The model is the tiny one, served under the real one's name, so that every state of the page is quick.
import assert from "node:assert/strict";
import path from "node:path";
import { after, before, test } from "node:test";
import { root } from "../../xtask/machine.mjs";
import { open } from "./support/harness.mjs";
import { tiny } from "./support/tiny.mjs";

const PHONE = { width: 390, height: 844 };
const DESK = { width: 1280, height: 800 };
/** GGUF's number of the type "unsigned 32 bits". */
const U32 = 4;
const file = tiny({ "llama.context_length": [U32, 2048] });

let harness;

before(async () => {
  const dist = path.join(root, "www/dist");
  harness = await open({
    mounts: { "/demo/": path.join(dist, "demo"), "/": dist },
    intercept: (request, response, { pathname }) => {
      if (!pathname.startsWith("/models/")) return false;
      response.writeHead(200, { "Content-Length": file.length });
      response.end(request.method === "HEAD" ? undefined : file);
      return true;
    },
  });
});

after(() => harness?.close());

test("a conversation by keyboard: load, send, watch the text grow, stop, go on", async () => {
  const { page, close } = await visit(DESK);
  // This adapter is slow enough to be stopped: on the CPU the answer has ended before a key can be pressed.
  await page.evaluate(() => void (document.querySelector("select[name=device]").value = "webgpu"));
  await page.keyboard.press("Enter"); // the Load button has the focus
  await ready(page);
  assert.match(await page.textContent("#load-words"), /\d+(\.\d)? (MB|kB)/, "progress is in bytes");
  assert.equal(await focused(page), "message");

  await watch(page, { escapeAt: 3 });
  await page.keyboard.type("hello");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("there");
  assert.equal(await page.inputValue("#message"), "hello\nthere");
  await page.keyboard.press("Enter");
  await idle(page);
  const lengths = await page.evaluate(() => globalThis.lengths);
  assert.ok(lengths.length >= 3, `the answer grew ${lengths.length} times`);
  assert.match(await page.textContent(".turn:last-child .foot"), /^aborted: stopped by you/);
  assert.equal(await focused(page), "message");
  assert.match(await page.textContent("#stat-stops"), /1 aborted/);
  assert.match(await page.textContent("#stat-decode"), /\d/);

  await page.keyboard.type("again");
  await page.keyboard.press("Enter");
  await idle(page);
  await page.click(".turn:last-child .sent summary");
  const roles = await page.locator(".turn:last-child .sent dt").allTextContents();
  assert.deepEqual(roles, ["user", "assistant", "user"]);
  // Only what was set is sent; all other knobs belong to the file and the library.
  const config = JSON.parse(await page.textContent(".turn:last-child .sent pre"));
  assert.deepEqual(config, { max_new_tokens: 200 });

  const before = await page.locator(".turn").count();
  await page.click(".regenerate");
  await idle(page);
  assert.equal(await page.locator(".turn").count(), before, "an answer took the place of the last");
  await close();
});

test("the plan follows the knobs, and refusals and warnings stand beside them", async () => {
  const { page, close } = await loaded(DESK);
  await page.fill("#knob-temperature", "0.5");
  await page.waitForFunction(() =>
    /do_sample/.test(document.querySelector("#knob-temperature-note").textContent),
  );
  assert.equal(await page.textContent("#knob-temperature-source"), "set here");
  assert.equal(await page.textContent("#knob-top_k-source"), "library default");
  assert.equal(await page.textContent("#glance-processors"), "none");

  await page.click("#selection-knobs label:has-text('Sample')");
  await page.waitForFunction(() =>
    /temperature 0\.5/.test(document.querySelector("#glance-processors").textContent),
  );
  assert.equal(await page.isVisible("#knob-temperature-note"), false);
  assert.equal(await page.textContent("[data-key=temperature] .bead"), "1");

  await page.fill("#knob-top_p", "7");
  await page.waitForFunction(
    () => document.querySelector("#knob-top_p").getAttribute("aria-invalid") === "true",
  );
  await page.fill("#message", "hello");
  await page.press("#message", "Enter");
  await page.waitForSelector("#error:not([hidden])");
  assert.match(await page.textContent("#error"), /invalid_option.*top_p.*7/);
  assert.equal(await page.inputValue("#message"), "hello", "the message is not lost");
  assert.equal(await page.locator(".turn").count(), 0);

  await page.click("[aria-label='Leave top_p untouched']");
  await page.waitForFunction(
    () => document.querySelector("#knob-top_p").getAttribute("aria-invalid") === "false",
  );
  assert.equal(await page.textContent("#knob-top_p-source"), "library default");
  await close();
});

test("the next token is shown before and after the processors", async () => {
  const { page, close } = await loaded(DESK);
  await page.click("#next-token summary");
  await page.click("#next-token-look");
  await page.waitForFunction(() =>
    /no prompt yet/.test(document.querySelector("#next-token-words").textContent),
  );
  await page.fill("#message", "hello");
  await page.focus("#next-token-look");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#next-token-rows tr");
  const cells = () =>
    page.$$eval("#next-token-rows tr", (rows) =>
      rows.map((row) => [...row.cells].slice(1).map((cell) => cell.innerText.trim())),
    );
  assert.match(await page.textContent("#next-token-words"), /: 258 of 258 tokens can come next/);
  assert.match(await page.textContent("#next-token-stages"), /No processor runs/);
  for (const [before, after] of await cells()) assert.equal(before, after);
  assert.equal((await cells()).length, 10);

  // Every turn of a knob is drawn without asking the model again.
  await page.click("#selection-knobs label:has-text('Sample')");
  await page.fill("#knob-top_k", "3");
  await page.waitForFunction(() =>
    /: 3 of 258 tokens/.test(document.querySelector("#next-token-words").textContent),
  );
  const kept = await cells();
  assert.deepEqual(
    kept.map(([, after]) => after.startsWith("removed by top_k")),
    [...Array(3).fill(false), ...Array(7).fill(true)],
  );
  assert.match(await page.textContent("#next-token-stages"), /top_k 3 removes 255 tokens/);

  // Settings that are refused have no table; it comes back with settings that are not.
  await page.fill("#knob-top_p", "7");
  await page.waitForSelector("#next-token-result", { state: "hidden" });
  assert.match(await page.textContent("#next-token-words"), /top_p.*7/);
  await page.fill("#knob-top_p", "1");
  await page.waitForSelector("#next-token-result:not([hidden])");
  assert.match(await page.textContent("#next-token-words"), /: 3 of 258 tokens/);
  await close();
});

test("a completion grows in place and can be taken back", async () => {
  const { page, close } = await loaded(DESK);
  await page.click("label:has(#mode-completion)");
  await page.fill("#sheet", "once upon");
  await page.press("#sheet", "Enter");
  await page.waitForFunction(() => document.querySelector("#sheet").value.length > 12);
  await idle(page);
  const text = await page.inputValue("#sheet");
  assert.ok(text.startsWith("once upon"));
  assert.equal("once upon" + (await page.textContent("#sheet-layer mark")), text);
  await page.click("#completion-undo");
  assert.equal(await page.inputValue("#sheet"), "once upon");
  await close();
});

test("at phone width nothing scrolls sideways, and the pipeline opens and closes by keyboard", async () => {
  const { page, close } = await visit(PHONE);
  const fits = async (state) => {
    const excess = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(excess <= 0, `${state}: ${excess} pixels too wide`);
  };
  await fits("loading form");
  await page.keyboard.press("Enter");
  await ready(page);
  await page.fill("#message", "a-word-that-is-much-too-long-for-a-phone-".repeat(4));
  await page.press("#message", "Enter");
  await idle(page);
  await fits("conversation");
  await page.focus("#panel-open");
  await page.keyboard.press("Enter");
  assert.ok(await page.isVisible("#knob-temperature"));
  await page.click("#presets button:has-text('Balanced')");
  await fits("pipeline");
  await page.click("#next-token summary");
  await page.click("#next-token-look");
  await page.waitForSelector("#next-token-rows tr");
  await fits("pipeline with the next token");
  await page.keyboard.press("Escape");
  assert.equal(await page.isVisible("#knob-temperature"), false);
  assert.equal(await focused(page), "panel-open");
  await fits("conversation with a longer plan");
  // The check itself: something too wide is found.
  await page.evaluate(() =>
    document
      .querySelector("#bar")
      .append(Object.assign(document.createElement("p"), { style: "width: 500px" })),
  );
  await assert.rejects(fits("a bar that is too wide"), /pixels too wide/);
  await close();
});

test("every control has a name, and colours follow the theme", async () => {
  const { page, close } = await loaded(DESK);
  for (const mode of ["chat", "completion"]) {
    await page.click(`label:has(#mode-${mode})`);
    assert.deepEqual(await nameless(page), []);
  }
  await page.click("#model-chip");
  assert.deepEqual(await nameless(page), []);
  await page.evaluate(() => document.body.append(document.createElement("button")));
  assert.deepEqual(await nameless(page), ["button"], "the check finds a control without a name");

  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await ground();
  await page.emulateMedia({ colorScheme: "light" });
  const light = await ground();
  assert.notEqual(dark, light);
  await page.click("#theme"); // auto → light
  await page.click("#theme"); // light → dark
  assert.equal(await ground(), dark);
  await page.reload();
  assert.equal(await ground(), dark, "the choice is remembered");
  await close();
});

/** A visit to the page with a new profile. Closing it fails the test on stray errors. */
async function visit(viewport) {
  const context = await harness.browser.newContext({ viewport });
  const page = await context.newPage();
  const stray = [];
  page.on("pageerror", (error) => stray.push(error.message));
  await page.goto(`${harness.server.origin}/demo/`);
  const close = async () => {
    await context.close();
    assert.deepEqual(stray, []);
  };
  return { page, close };
}

async function loaded(viewport) {
  const visited = await visit(viewport);
  await visited.page.click("#load-submit");
  await ready(visited.page);
  return visited;
}

const ready = (page) => page.waitForSelector("body[data-view=talk]", { timeout: 120_000 });

/** Waits until no text is being generated, which it is at the latest when the key was handled. */
const idle = (page) => page.waitForSelector("body[data-running=false]", { timeout: 120_000 });

const focused = (page) => page.evaluate(() => document.activeElement.id);

/** Notes how long the newest answer is each time it grows; presses Escape at the given time. */
const watch = (page, { escapeAt }) =>
  page.evaluate((escapeAt) => {
    globalThis.lengths = [];
    new MutationObserver(() => {
      const text =
        document.querySelector(".turn:last-child[data-role=assistant] .text")?.textContent ?? "";
      if (text.length <= (globalThis.lengths.at(-1) ?? 0)) return;
      globalThis.lengths.push(text.length);
      if (globalThis.lengths.length === escapeAt) {
        document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
      }
    }).observe(document.querySelector("#messages"), {
      subtree: true,
      childList: true,
      characterData: true,
    });
  }, escapeAt);

/** The roles of controls that have no name in the browser's accessibility tree. */
async function nameless(page) {
  const session = await page.context().newCDPSession(page);
  const { nodes } = await session.send("Accessibility.getFullAXTree");
  const controls = new Set([
    "button",
    "textbox",
    "spinbutton",
    "slider",
    "radio",
    "combobox",
    "searchbox",
    "checkbox",
    "DisclosureTriangle",
  ]);
  return nodes
    .filter(({ ignored, role, name }) => !ignored && controls.has(role.value) && !named(name))
    .map(({ role }) => role.value);
}

/** A placeholder is no name: it is gone as soon as something is typed. */
function named(name) {
  const source = name?.sources?.find(({ value, superseded }) => value && !superseded);
  return Boolean(name?.value) && source?.type !== "placeholder";
}
