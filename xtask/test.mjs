// `npm test`: everything there is to check, with a summary. The last line is "N passed, N failed".
//
// A step that names single checks counts them; any other counts as one. Later steps run although earlier
// ones failed, so that one run tells everything.
import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import path from "node:path";
import { chromium, model, nodeModules, root, toolchain, vulkan, which } from "./machine.mjs";

const nextest = which("cargo-nextest") !== undefined;
const rust = (...binaries) =>
  nextest
    ? ["cargo", "nextest", "run", "--no-fail-fast", ...binaries]
    : ["cargo", "test", "--no-fail-fast", ...binaries];

const STEPS = [
  ["format, Rust", ["cargo", "fmt", "--all", "--check"]],
  ["lints, native", ["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]],
  [
    "lints, WebAssembly",
    ["cargo", "clippy", "--lib", "--target", "wasm32-unknown-unknown", "--", "-D", "warnings"],
  ],
  [
    "tests without an adapter",
    rust("--lib", "--bins", "--test", "native", "--test", "memory"),
    rustCounts,
  ],
  ["documentation examples", ["cargo", "test", "--doc"], rustCounts],
  ["tests on the adapter", rust("--test", "gpu"), rustCounts],
  ["build", ["npm", "run", "--silent", "build"]],
  ["types", ["npx", "--no-install", "tsc", "--project", "."]],
  ["types, as a user sees them", ["npx", "--no-install", "tsc", "--project", "tests/types"]],
  ["format, the rest", ["npx", "--no-install", "prettier", "--check", "."]],
  ["download size", ["node", "xtask/size.mjs"]],
  [
    "tests in a browser",
    ["node", "--test", "--test-concurrency=1", "--test-reporter=spec", ...web()],
    nodeCounts,
  ],
];

const LAST_LINES = 40;

toolchain();
nodeModules();
vulkan();
process.env.CHROMIUM = chromium();
process.env.DECANT_MODEL = path.resolve(model());

const results = [];
for (const [name, command, counts = () => undefined] of STEPS) {
  console.log(`\n=== ${name}: ${command.slice(0, 6).join(" ")}${command.length > 6 ? " …" : ""}`);
  const begun = Date.now();
  const { status, output } = await tee(command);
  // A step that failed without naming a failed check failed as a whole.
  let { passed, failed } = counts(output) ?? { passed: status === 0 ? 1 : 0, failed: 0 };
  if (status !== 0 && failed === 0) failed = 1;
  if (status === 0 && passed === 0) failed += 1;
  results.push({ name, passed, failed, output, seconds: Math.round((Date.now() - begun) / 1000) });
}

// What failed is said again at the end, because often nothing else of a long log is kept.
for (const { name, failed, output } of results) {
  if (failed > 0) console.log(`\n=== FAILED ${name}, its last lines\n${lastLines(output)}`);
}

console.log("\n=== summary");
for (const { name, passed, failed, seconds } of results) {
  console.log(
    `${failed > 0 ? "FAILED" : "ok    "} ${name.padEnd(28)} ${passed} passed, ${failed} failed, ${seconds} s`,
  );
}
const sum = (key) => results.reduce((total, result) => total + result[key], 0);
process.exitCode = sum("failed") > 0 ? 1 : 0;
console.log(`${sum("passed")} passed, ${sum("failed")} failed`);

/** Runs a command, shows its output, and keeps it. */
function tee([program, ...args]) {
  return new Promise((resolve) => {
    const child = spawn(program, args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const [stream, target] of [
      [child.stdout, process.stdout],
      [child.stderr, process.stderr],
    ]) {
      stream.on("data", (data) => {
        output += data;
        target.write(data);
      });
    }
    child.on("error", (error) => resolve({ status: 1, output: `${program}: ${error.message}` }));
    child.on("close", (status) => resolve({ status: status ?? 1, output }));
  });
}

/** From nextest's summary, or from those of cargo's own runner, which nextest shows of every test that fails. */
function rustCounts(output) {
  const text = plain(output);
  const found = (pattern) =>
    [...text.matchAll(pattern)].map(([, passed, failed]) => [passed, failed]);
  const all = found(/Summary .*?: (?:(\d+) passed)?(?:[^\n]*?(\d+) failed)?/g);
  return total(all.length > 0 ? all : found(/test result: \w+\. (\d+) passed; (\d+) failed/g));
}

function nodeCounts(output) {
  const text = plain(output);
  const number = (key) => new RegExp(`^. ${key} (\\d+)$`, "m").exec(text)?.[1];
  return total([[number("pass"), Number(number("fail") ?? 0) + Number(number("cancelled") ?? 0)]]);
}

function total(pairs) {
  const sum = (index) => pairs.reduce((all, pair) => all + Number(pair[index] ?? 0), 0);
  return { passed: sum(0), failed: sum(1) };
}

function lastLines(output) {
  return plain(output).trimEnd().split("\n").slice(-LAST_LINES).join("\n");
}

/** Without colours. */
function plain(output) {
  return output.replaceAll(/\u001b\[[0-9;]*m/g, "");
}

function web() {
  const folder = path.join(root, "tests/web");
  return readdirSync(folder)
    .filter((name) => name.endsWith(".mjs"))
    .map((name) => path.join("tests/web", name));
}
