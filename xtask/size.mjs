// What a page downloads before a model: the package's JavaScript and WebAssembly, compressed with brotli.
//
//   node xtask/size.mjs          the sizes; fails when they exceed the budget
//   node xtask/size.mjs --crates what each crate costs: builds once more with function names and counts code bytes
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import zlib from "node:zlib";
import { root, run } from "./machine.mjs";

/** Bytes of everything together: 1.0 MB. */
const BUDGET = 1_000_000;

const dist = path.join(root, "www/dist");

/** Every file that an engine may need, with its bytes as they are and compressed. */
export function measure() {
  const names = readdirSync(dist).filter((name) => name.endsWith(".js") || name.endsWith(".wasm"));
  return names.map((name) => {
    const bytes = readFileSync(path.join(dist, name));
    return { name, raw: bytes.length, brotli: brotli(bytes) };
  });
}

function brotli(bytes) {
  const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_LGWIN, BROTLI_PARAM_SIZE_HINT } = zlib.constants;
  const params = {
    [BROTLI_PARAM_QUALITY]: 11,
    [BROTLI_PARAM_LGWIN]: 24,
    [BROTLI_PARAM_SIZE_HINT]: bytes.length,
  };
  return zlib.brotliCompressSync(bytes, { params }).length;
}

const row = (name, ...numbers) =>
  console.log(name.padEnd(34) + numbers.map((n) => n.toLocaleString("en").padStart(12)).join(""));

function sizes() {
  console.log(`${"file".padEnd(34)}${"bytes".padStart(12)}${"brotli".padStart(12)}`);
  const files = measure();
  for (const { name, raw, brotli } of files) row(name, raw, brotli);
  // A browser takes one of the modules and its bindings, so of each pair the larger counts.
  const larger = (pattern) => {
    const [first, ...others] = files
      .filter(({ name }) => pattern.test(name))
      .sort((a, b) => b.brotli - a.brotli);
    return { first, others };
  };
  const modules = larger(/\.wasm$/);
  const left = [...modules.others, ...larger(/^decant-\w+\.js$/).others];
  const counted = files.filter((file) => !left.includes(file));
  const sum = (key) => counted.reduce((total, file) => total + file[key], 0);
  row(`all, with ${modules.first.name}`, sum("raw"), sum("brotli"));
  if (sum("brotli") <= BUDGET) return;
  console.error(`the budget is ${BUDGET.toLocaleString("en")} bytes of brotli`);
  process.exitCode = 1;
}

/** Code bytes of every crate, by the names that the linker left. */
function crates() {
  run("cargo", "run", "--quiet", "--package", "xtask", "--", "build", "--names");
  const file = path.join(dist, "decant.wasm");
  const { functions, code, other } = sections(readFileSync(file));
  const costs = new Map();
  for (const { name, size } of functions) {
    const crate = owner(name);
    costs.set(crate, (costs.get(crate) ?? 0) + size);
  }
  console.log(`${"crate".padEnd(34)}${"code bytes".padStart(12)}${"share".padStart(12)}`);
  for (const [crate, size] of [...costs].sort((a, b) => b[1] - a[1])) {
    if (size >= 500) row(crate, size, `${((100 * size) / code).toFixed(1)} %`);
  }
  for (const [name, size] of other) row(`(${name})`, size);
  console.log("this is a build with names: run npm run build for the one to publish");
}

/** The crate that a mangled or demangled symbol belongs to: the first that is not the standard library's. */
function owner(name) {
  const found = [...name.matchAll(/(?:Cs[0-9A-Za-z]*_)(\d+)_?([A-Za-z_]\w*)/g)].map(
    ([, length, rest]) => rest.slice(0, Number(length)),
  );
  // Legacy mangling writes each path segment after its length.
  const legacy = /^_ZN(.*)E$/.exec(name);
  if (legacy) {
    for (const [, length, rest] of legacy[1].matchAll(/(\d+)([A-Za-z_$.][\w$.]*)/g)) {
      found.push(rest.slice(0, Number(length)));
      break;
    }
  }
  const demangled = [...name.matchAll(/([A-Za-z_]\w*)(?:\[[0-9a-f]+\])?::/g)].map(
    ([, crate]) => crate,
  );
  const crates = found.length > 0 ? found : demangled;
  const standard = ["core", "alloc", "std", "impl", "dyn"];
  return (
    crates.find((crate) => !standard.includes(crate)) ??
    (crates[0] ? "the standard library" : "other")
  );
}

/** The functions of a module with their sizes, and the sizes of its other sections. */
function sections(bytes) {
  let at = 8;
  const varint = () => {
    let [value, shift, byte] = [0, 0, 0];
    do {
      byte = bytes[at++];
      value += (byte & 0x7f) * 2 ** shift;
      shift += 7;
    } while (byte & 0x80);
    return value;
  };
  const text = () => {
    const length = varint();
    at += length;
    return bytes.toString("utf8", at - length, at);
  };
  let imported = 0;
  let code = 0;
  const bodies = [];
  const names = new Map();
  const other = new Map();
  while (at < bytes.length) {
    const id = bytes[at++];
    const size = varint();
    const end = at + size;
    if (id === 2) {
      for (let count = varint(); count > 0; count -= 1) {
        text();
        text();
        const kind = bytes[at++];
        if (kind === 0) imported += 1;
        if (kind !== 0) throw new Error(`an import of kind ${kind} was not expected`);
        varint();
      }
    } else if (id === 10) {
      code = size;
      for (let count = varint(); count > 0; count -= 1) {
        const length = varint();
        bodies.push(length);
        at += length;
      }
    } else if (id === 0) {
      if (text() === "name") {
        while (at < end) {
          const kind = bytes[at++];
          const subEnd = varint() + at;
          if (kind === 1)
            for (let count = varint(); count > 0; count -= 1) names.set(varint(), text());
          at = subEnd;
        }
      }
    } else if (id === 11) {
      other.set("constant data", size);
    }
    at = end;
  }
  const functions = bodies.map((size, index) => ({
    size,
    name: names.get(imported + index) ?? "",
  }));
  return { functions, code, other };
}

if (!existsSync(dist)) throw new Error("run npm run build first");
if (process.argv.includes("--crates")) crates();
else sizes();
