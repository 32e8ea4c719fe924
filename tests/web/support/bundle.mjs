// One of the package's own modules with what it imports, for tests that look behind the public face.
import { build } from "esbuild";
import { root } from "../../../xtask/machine.mjs";

/** The module's text. */
export async function bundle(entry) {
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: [entry],
    bundle: true,
    format: "esm",
    target: "es2022",
    write: false,
  });
  return outputFiles[0].text;
}
