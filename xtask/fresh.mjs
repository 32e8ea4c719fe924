// Builds the package, unless nothing that it is made of has changed since the last build.
import { existsSync, readdirSync, statSync } from "node:fs";
import path from "node:path";
import { root, run } from "./machine.mjs";

const SOURCES = [
  "src",
  "shaders",
  "www",
  "xtask/src",
  "Cargo.toml",
  "Cargo.lock",
  "package-lock.json",
  "tsconfig.json",
  "tsconfig.build.json",
];

/** Builds if needed. */
export function build() {
  const built = path.join(root, "www/dist/index.d.ts");
  if (existsSync(built) && newest(SOURCES) <= statSync(built).mtimeMs) return;
  console.log("building the package (the first time takes some minutes)");
  run("npm", "run", "--silent", "build");
}

function newest(names, folder = root) {
  return Math.max(
    ...names.map((name) => {
      const file = path.join(folder, name);
      if (!existsSync(file)) return 0;
      const { mtimeMs } = statSync(file);
      if (!statSync(file).isDirectory()) return mtimeMs;
      const inside = readdirSync(file).filter((entry) => entry !== "dist" && entry !== "bindings");
      return inside.length === 0 ? 0 : newest(inside, file);
    }),
  );
}
